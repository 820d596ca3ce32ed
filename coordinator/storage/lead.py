"""Leader election among coordinators that share a PostgreSQL database, and what this process knows of it.

One process leads: the one whose session holds an advisory lock. The server gives the lock back when the session ends,
and it ends a session that is silent for :data:`RELEASE_S`: because its process froze, its host died, or the network
between them was cut. A process that cannot show for :data:`LOST_S` that it still holds the lock must end; that is
sooner, so normally only one process works. For safety the lock is not enough, because a frozen process cannot know
that it was frozen: each writing transaction of the leader also checks the number of its term
(:mod:`nightjar.coordinator.storage.fencing`).

Source: PostgreSQL documentation, 13.3.5 (advisory locks) and ``idle_session_timeout``; M. Kleppmann, "How to do
distributed locking", 2016 (fencing tokens).
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fencing import LeadLostError, check_key
from nightjar.coordinator.storage.signing_key import KeySigner
from nightjar.host.signals import AWAKE_S, noticed_signals
from nightjar.host.systemd import ServiceManager
from nightjar.wire.errors import ConfigError, UnavailableError

LOCK = 0x6E696768746A6172
"""Number of the advisory lock: "nightjar"."""
TURN_S = 1.0
"""Interval at which the leader uses its session, and others try the lock."""
LOST_S = 6.0
"""A leader whose session last answered this long ago has lost the lead."""
RELEASE_S = 8.0
"""The server ends a silent session after this time, and so releases its lock."""

_log = structlog.get_logger("coordinator")


class LeaderElection:
    """Competes for the lead in a PostgreSQL database, in a thread of its own, and keeps it.

    ``lost`` is called with the reason when the lead is lost; it must end the process at once.
    """

    def __init__(self, url: str, lost: Callable[[str], object]) -> None:
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        self._session: sa.Connection | None = None
        self._lost = lost
        self._shown_s = 0.0
        self._holds, self._tried, self._closing = threading.Event(), threading.Event(), threading.Event()
        self.trouble = ""  # why the database cannot be asked for the lead; empty if it can
        self._thread = threading.Thread(target=self._run, name="lead", daemon=True)

    def start(self) -> None:
        """Start competing; returns after the first attempt."""
        self._thread.start()
        self._tried.wait()

    def close(self) -> None:
        """Give up the lead, or stop competing."""
        self._closing.set()
        self._thread.join(timeout=LOST_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the lead; returns whether this process has it."""
        return self._holds.wait(timeout_s)

    def check(self) -> None:
        """Report the lead as lost if the database has not confirmed it for too long."""
        if self._holds.is_set() and time.monotonic() - self._shown_s > LOST_S:
            self._lost(f"the database has not confirmed it for {LOST_S:g} s")

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.trouble = ""
                self._turn()
            except DBAPIError as error:
                if self._holds.is_set():
                    self._lost(str(error.orig).strip())
                    return
                if not self.trouble:
                    _log.warning("database_unreachable", reason=str(error.orig).strip(), again="until it works")
                self.trouble = str(error.orig).strip()
                self._hang_up()
            self._tried.set()
            self._closing.wait(TURN_S)
        self._hang_up()
        self._engine.dispose()

    def _turn(self) -> None:
        asked_s = time.monotonic()
        if self._session is None:
            self._session = self._engine.connect()
            self._session.exec_driver_sql(f"SET idle_session_timeout = {1000 * RELEASE_S:.0f}")
        # A former primary answers, and even gives its lock, but the lock that counts is at the server in its place.
        if self._session.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
            if self._holds.is_set():
                self._lost("the database server became read-only; another one has its place")
                return
            self.trouble = "the database server is read-only"
            self._hang_up()
        elif self._holds.is_set():
            self._shown_s = asked_s
        elif self._session.scalar(sa.select(sa.func.pg_try_advisory_lock(LOCK))):
            self._shown_s = asked_s
            self._holds.set()

    def _hang_up(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.invalidate()  # not a polite end, which could block on a dead connection
            session.close()


def open_database(url: str, election: LeaderElection | None) -> Database:
    """Open the database; only a leader brings its tables up to date, and others wait until they are."""
    if election is None:
        return Database(url)
    said = ""
    while not election.wait(TURN_S if said else 0):
        try:
            return Database(url, migrate=False)
        except (ConfigError, UnavailableError) as error:
            if not said:
                said = str(error)
                _log.warning("waiting_for_database", reason=said)
    return Database(url)


def stop_at_once(reason: str) -> None:
    """End the process without any clean-up, in which it could still act as the leader; kills are always safe."""
    _log.error("lead_lost", reason=reason)
    os._exit(LeadLostError.exit_status)


class Leadership:
    """Whether this process leads, and who does otherwise.

    Attributes:
        leader: name of the leader's host; empty if this process leads.
    """

    def __init__(self, election: LeaderElection | None, database: Database, signer: KeySigner) -> None:
        self._election, self._database, self._signer = election, database, signer
        self._host = socket.gethostname()
        self._known = [step.signer for step in signer.successions]
        self.leader = ""

    def look(self) -> bool:
        """Find out who leads; returns whether this process does.

        Raises:
            ConfigError: devices do not know the signing key of this host.
            UnavailableError: the database cannot be read now.
        """
        if self._election is None or self._election.wait(0):
            return True
        found = self._database.leader()
        self.leader = found[0] if found else "nobody"
        if found:
            check_key(*found, self._host, self._signer.public, self._known)
        return False

    def wait_for_lead(self, service_manager: ServiceManager) -> bool:
        """Wait until this process leads; False if a signal ends it first."""
        if self._election is None:
            return True
        _log.info("standing_by", leader=self.leader)
        with noticed_signals() as over:
            while not (leads := self._election.wait(AWAKE_S)) and not over.is_set():
                with contextlib.suppress(UnavailableError):
                    self.look()
                service_manager.turned(f"standing by: {self.leader} leads")
        return leads and not over.is_set()

    def begin(self) -> int | None:
        """Begin this process's term; None without other processes."""
        if self._election is None:
            return None
        term = self._database.lead(self._host, self._signer.public, self._known)
        self.leader = ""
        _log.info("leading", term=term)
        return term

    def check(self) -> None:
        """End the process if it has lost the lead."""
        if self._election is not None:
            self._election.check()

    def troubles(self) -> list[str]:
        """Why the lead cannot be competed for."""
        return (
            [f"the database: {self._election.trouble}"] if self._election is not None and self._election.trouble else []
        )
