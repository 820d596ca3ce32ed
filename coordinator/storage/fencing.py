"""Fencing: only the leader of a shared database may write, whatever a former leader believes.

Each leader has a term, whose number stands in the table ``leadership``. Each writing transaction checks first that this
number is still its own, and locks the row until it commits, so a term cannot end in the middle of a transaction.

Source: M. Kleppmann, "How to do distributed locking", 2016 (fencing tokens). :mod:`nightjar.coordinator.storage.lead`
decides who leads.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from nightjar.coordinator.storage.engine import BUSY_TIMEOUT_S
from nightjar.coordinator.storage.tables import leadership
from nightjar.wire.errors import ConfigError, NightjarError

_CHECKED = "term checked"
_END_WRITERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'leadership'::regclass "
    "AND mode = 'RowShareLock' AND pid <> pg_backend_pid()"
)


class LeadLostError(NightjarError):
    """Another coordinator leads now, so this process may write nothing more."""

    code = "lead-lost"
    exit_status = 3


class Fence:
    """Checks the term of every writing transaction of an engine; SQLite is never shared, and nothing is checked there.

    Attributes:
        term: term of the leader for whom this process works, set once :meth:`begin_term` is committed; None if any
            process may write.
    """

    def __init__(self, engine: sa.Engine, term: int | None) -> None:
        self.term = term
        if engine.dialect.name == "postgresql":
            sa.event.listen(engine, "begin", lambda connection: connection.info.pop(_CHECKED, None))
            sa.event.listen(engine, "before_cursor_execute", self._check)

    def begin_term(self, connection: sa.Connection, host: str, key: str, known: Collection[str]) -> int:
        """Begin a term as the leader, which ends the former leader's: from now on it can write nothing.

        Args:
            connection: an open transaction.
            host: name of this host, for people.
            key: public half of the key with which this host signs orders.
            known: keys that devices exchange for ``key``.

        Returns:
            The number of the term.

        Raises:
            ConfigError: devices do not know the key of this host.
        """
        # A former leader that froze within a transaction would hold its lock on the row for ever.
        connection.exec_driver_sql(_END_WRITERS)
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {1000 * BUSY_TIMEOUT_S}")
        connection.exec_driver_sql("LOCK TABLE leadership IN EXCLUSIVE MODE")
        former = connection.execute(sa.select(leadership)).first()
        if former is not None:
            check_key(former.host, former.signing_key, host, key, known)
        term = 1 if former is None else former.term + 1
        connection.execute(sa.delete(leadership))
        connection.execute(sa.insert(leadership).values(term=term, host=host, signing_key=key))
        return term

    def _check(
        self, connection: sa.Connection, cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool
    ) -> None:
        """Check before the first write of a transaction that the term has not ended; it cannot end before the commit.

        Raises:
            LeadLostError: another process leads.
        """
        writes = context is not None and (context.isinsert or context.isupdate or context.isdelete)
        if self.term is None or not writes or _CHECKED in connection.info:
            return
        cursor.execute("SELECT term FROM leadership FOR SHARE")
        if cursor.fetchone() != (self.term,):
            msg = f"another coordinator leads: our term {self.term} is over"
            raise LeadLostError(msg)
        connection.info[_CHECKED] = True


def check_key(leader: str, leaders_key: str, host: str, key: str, known: Collection[str]) -> None:
    """Check that a host has the signing key of the leader, or its successor.

    Raises:
        ConfigError: it has another key.
    """
    if host != leader and leaders_key not in {key, *known}:
        msg = (
            f"data_dir: the signing key here is {key[:12]}, devices obey {leaders_key[:12]} of {leader}: copy "
            "signing.pem and keys.json from there"
        )
        raise ConfigError(msg)
