"""The database adapter: SQLAlchemy Core over SQLite in WAL mode, or over PostgreSQL.

One thread writes (the driver); web threads read in their own transactions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from nightjar.coordinator.storage import schema
from nightjar.coordinator.storage.engine import IN_MEMORY, close_to_others, open_engine
from nightjar.coordinator.storage.fencing import Fence
from nightjar.coordinator.storage.tables import METADATA, effects, leadership
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.wire.errors import UnavailableError


class Database:
    """The coordinator's database; every method raises :class:`UnavailableError` if it cannot be read or written now.

    Args:
        url: SQLAlchemy URL, such as ``sqlite:////var/lib/nightjar/coordinator.sqlite``; with :data:`IN_MEMORY` the data
            is lost when the object is closed.
        after_statement: called after every statement; lets a test interrupt execution there.
        migrate: bring the tables up to date first; a reader must not do so while a service may be using them.
        term: term of the leader for whom this process works; None if any process may write.

    Raises:
        UnavailableError: the database cannot be opened or migrated.
        ConfigError: the tables are newer than this program, or outdated and ``migrate`` is false.
    """

    def __init__(
        self,
        url: str,
        after_statement: Callable[[], None] | None = None,
        *,
        migrate: bool = True,
        term: int | None = None,
    ) -> None:
        self._engine = open_engine(url)
        self._fence = Fence(self._engine, term)
        if after_statement is not None:
            sa.event.listen(self._engine, "after_cursor_execute", lambda *_: after_statement())
        with self._translated():
            try:
                if url == IN_MEMORY:
                    METADATA.create_all(self._engine)
                else:
                    if migrate:
                        close_to_others(self._engine.url)
                    (schema.upgrade if migrate else schema.check)(self._engine)
                with self._engine.begin() as connection:
                    self._effect_numbers = _numbers_after(connection)
            except Exception:
                self.close()
                raise

    def lead(self, host: str, key: str, known: Collection[str]) -> int:
        """Begin a term as the leader; returns its number (:mod:`nightjar.coordinator.storage.fencing`).

        Raises:
            ConfigError: devices do not know the key of this host.
        """
        with self._translated(), self._engine.begin() as connection:
            term = self._fence.begin_term(connection, host, key, known)
            self._effect_numbers = _numbers_after(connection)
        self._fence.term = term
        return term

    def leader(self) -> tuple[str, str] | None:
        """Name of the leader's host, and the public half of its signing key; None before the first term."""
        with self.connection() as connection:
            found = connection.execute(sa.select(leadership.c.host, leadership.c.signing_key)).first()
            return None if found is None else (found.host, found.signing_key)

    @property
    def shared(self) -> bool:
        """Whether coordinators on several hosts can share it."""
        return self._engine.dialect.name == "postgresql"

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[DatabaseView]:
        """Begin a transaction; commits at the end of the block, rolls back if it raises."""
        with self._translated(), self._engine.begin() as connection:
            view = DatabaseView(connection, self._effect_numbers)
            yield view
            view.flush()

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """A transaction for a module that has its own tables; commits at the end of the block."""
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise  # a bug, not a fault of the disk
        except DBAPIError as error:
            where, reason = self._engine.url.render_as_string(), str(error.orig)
            msg = f"the database {where} does not work: {reason}; {_remedy(reason)}"
            raise UnavailableError(msg) from error


def _numbers_after(connection: sa.Connection) -> Iterator[int]:
    """Numbers for new effects; given here so that many can be inserted in one statement. Only the leader adds any."""
    return itertools.count((connection.scalar(sa.select(sa.func.max(effects.c.number))) or 0) + 1)


def _remedy(said: str) -> str:
    if "locked" in said or "busy" in said:
        return "another program holds it: close whatever else has it open, such as a shell or a backup"
    if "malformed" in said or "not a database" in said:
        return "it is damaged: stop the service, keep the file, and restore a backup into an empty folder"
    if "full" in said or "disk" in said:
        return "free some space on its disk, and see that the disk is sound"
    return "see that it can be reached and written"
