"""Whether this process leads, among coordinators on several hosts, and who leads otherwise."""

from __future__ import annotations

import contextlib
import os
import socket

import structlog

from coordinator.storage.database import Database
from coordinator.storage.fencing import LeadLostError, check_key
from coordinator.storage.lead import TURN_S, Lead
from coordinator.storage.signing_key import KeySigner
from host.signals import AWAKE_S, noticed_signals
from host.systemd import ServiceManager
from wire.errors import ConfigError, UnavailableError

_log = structlog.get_logger("coordinator")


def open_database(url: str, lead: Lead | None) -> Database:
    """Open the database; only a leader brings its tables up to date, and others wait until they are."""
    if lead is None:
        return Database(url)
    said = ""
    while not lead.wait(TURN_S if said else 0):
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


class Standing:
    """Whether this process leads, and who does otherwise.

    Attributes:
        leader: name of the leader's host; empty if this process leads.
    """

    def __init__(self, lead: Lead | None, database: Database, signer: KeySigner) -> None:
        self._lead, self._database, self._signer = lead, database, signer
        self._host = socket.gethostname()
        self._known = [step.signer for step in signer.successions]
        self.leader = ""

    def look(self) -> bool:
        """Find out who leads; returns whether this process does.

        Raises:
            ConfigError: devices do not know the signing key of this host.
            UnavailableError: the database cannot be read now.
        """
        if self._lead is None or self._lead.wait(0):
            return True
        found = self._database.leader()
        self.leader = found[0] if found else "nobody"
        if found:
            check_key(*found, self._host, self._signer.public, self._known)
        return False

    def wait_for_lead(self, service_manager: ServiceManager) -> bool:
        """Wait until this process leads; False if a signal ends it first."""
        if self._lead is None:
            return True
        _log.info("standing_by", leader=self.leader)
        with noticed_signals() as over:
            while not (leads := self._lead.wait(AWAKE_S)) and not over.is_set():
                with contextlib.suppress(UnavailableError):
                    self.look()
                service_manager.turned(f"standing by: {self.leader} leads")
        return leads and not over.is_set()

    def begin(self) -> int | None:
        """Begin this process's term; None without other processes."""
        if self._lead is None:
            return None
        term = self._database.lead(self._host, self._signer.public, self._known)
        self.leader = ""
        _log.info("leading", term=term)
        return term

    def check(self) -> None:
        """End the process if it has lost the lead."""
        if self._lead is not None:
            self._lead.check()

    def troubles(self) -> list[str]:
        """Why the lead cannot be competed for."""
        return [f"the database: {self._lead.trouble}"] if self._lead is not None and self._lead.trouble else []
