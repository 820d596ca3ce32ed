"""Opens the database: its URL, SQLAlchemy's engine, and what SQLite needs to be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.host.files import private_file
from nightjar.wire.errors import ConfigError, UnavailableError, rewording

BUSY_TIMEOUT_S = 10
"""How long a connection waits for another's write lock; our writes take milliseconds."""
NOTICED_S = 6
"""A dead connection to PostgreSQL is noticed after this time; TCP alone takes a quarter of an hour."""
READ_ONLY = "25006"
"""PostgreSQL's code for a write on a server that allows none, such as a former primary."""
IN_MEMORY = "sqlite://"
"""URL of a database that exists only in memory: for tests and simulations."""


def database_file(data_dir: Path) -> Path:
    """Path of a coordinator's SQLite database."""
    return data_dir / "coordinator.sqlite"


def database_url(config: CoordinatorConfig) -> str:
    """SQLAlchemy URL of a coordinator's database.

    Raises:
        ConfigError: ``database_url`` is not a PostgreSQL URL.
    """
    if not config.database_url:
        return f"sqlite:///{database_file(config.data_dir)}"
    try:
        url = sa.make_url(config.database_url)
    except ArgumentError as error:
        msg = "database_url: expected a URL such as postgresql://user:password@host/name, got something else"
        raise ConfigError(msg) from error
    if url.get_backend_name() != "postgresql":
        msg = f"database_url: expected a postgresql:// URL, got one of {url.get_backend_name()}"
        raise ConfigError(msg)
    timeouts = {
        "connect_timeout": str(NOTICED_S),
        "keepalives_idle": str(NOTICED_S),
        "keepalives_interval": "1",
        "tcp_user_timeout": str(1000 * NOTICED_S),
    }
    url = url.set(drivername="postgresql+psycopg", query={**timeouts, **url.query})
    return url.render_as_string(hide_password=False)


def open_engine(url: str) -> sa.Engine:
    """SQLAlchemy's engine for a URL; connects to nothing yet."""
    if url == IN_MEMORY:  # all threads share one connection: a second one would see an empty database
        engine = sa.create_engine(url, poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _configure_sqlite)
    else:
        sa.event.listen(engine, "handle_error", _leave_a_demoted_server)
    return engine


def _leave_a_demoted_server(context: sa.engine.ExceptionContext) -> None:
    """Discard all connections if the server became read-only: another one has its place behind the same address."""
    if getattr(context.original_exception, "sqlstate", None) == READ_ONLY:
        context.is_disconnect = True


def close_to_others(url: sa.URL) -> None:
    """Create the file before SQLite would create it readable by others; its -wal and -shm inherit the mode.

    Raises:
        UnavailableError: it cannot be made or closed.
    """
    if url.get_backend_name() == "sqlite" and url.database:
        with rewording(UnavailableError, f"the database {url.database} cannot be made or closed to others"):
            private_file(Path(url.database))


def _configure_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")  # web pages that read do not block the driver
    cursor.execute("PRAGMA synchronous = FULL")  # a receipt is a promise that must survive a power cut
    cursor.execute("PRAGMA secure_delete = ON")  # deleted report data is overwritten
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {1000 * BUSY_TIMEOUT_S}")
    cursor.close()
