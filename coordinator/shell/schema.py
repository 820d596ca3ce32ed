"""The version of the tables: brought up to date as a whole, or refused in words.

Before tables of SQLite are changed the database is copied beside itself, and the change is one transaction, so a kill
or a full disk in the middle leaves it as it was. There is no way back but that copy: a program that is older than its
database says so and leaves it alone.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa
import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from host.files import put_in_place
from wire.errors import ConfigError, UnavailableError

_log = structlog.get_logger("coordinator")


def upgrade(engine: sa.Engine) -> None:
    """Bring the tables up to date; nothing happens if they are.

    Raises:
        ConfigError: a newer Nightjar made them.
        UnavailableError: there is no room for the copy.
        DBAPIError: the database does not work.
    """
    with engine.connect() as connection:
        found = _found(connection)
        if found == head():
            return
        connection.rollback()
        copy = ""
        if engine.dialect.name == "sqlite":
            if found is not None:
                copy = str(_keep_copy(Path(str(engine.url.database)), found))
            _begin_changes(connection)
        if found is not None:
            _log.info("database_upgrade", tables=found, wanted=head(), copy=copy)
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        if engine.dialect.name == "sqlite":
            _check_references(connection)
        connection.commit()


def check(engine: sa.Engine) -> None:
    """See to it that the tables are those of this program.

    Raises:
        ConfigError: they are older or newer.
        DBAPIError: the database does not work.
    """
    with engine.connect() as connection:
        found = _found(connection)
    if found != head():
        msg = (
            f"the database has tables of version {found}, this program wants {head()}; "
            "stop the service and run 'nightjar-coordinator db upgrade'"
        )
        raise ConfigError(msg)


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a SQLite database, which may be in use, by SQLite's online backup.

    Raises:
        UnavailableError: it cannot be read, or there is no room.
    """
    try:
        held, copy = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(target)
        try:
            held.backup(copy)
        finally:
            copy.close()
            held.close()
    except sqlite3.Error as error:
        msg = f"cannot copy the database {source} to {target}: {error}"
        raise UnavailableError(msg) from error
    target.chmod(0o600)


def _begin_changes(connection: sa.Connection) -> None:
    """SQLite's own procedure for changing tables that others refer to: in one transaction, without their references.

    Python's driver begins no transaction by itself for statements that change tables.
    """
    connection.detach()  # it is closed afterwards: it is not like the others any more
    connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _keep_copy(path: Path, revision: str) -> Path:
    kept = path.with_name(f"{path.name}.{revision}")
    arriving = kept.with_name(f"{kept.name}.writing")
    copy_sqlite(path, arriving)
    put_in_place(arriving, kept)
    return kept


def _found(connection: sa.Connection) -> str | None:
    """The version of the tables; None for an empty database."""
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in {script.revision for script in _scripts().walk_revisions()}:
        msg = (
            f"the database has tables of version {found}, this program knows them up to {head()} only: a newer "
            "Nightjar made them; run that one, or restore the copy or the backup from before its upgrade"
        )
        raise ConfigError(msg)
    return found


def _check_references(connection: sa.Connection) -> None:
    lost = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if lost is not None:
        msg = f"rows of the table {lost[0]} would refer to rows that are not there; nothing was changed"
        raise UnavailableError(msg)


def head() -> str | None:
    """The version of the tables that this program wants."""
    return _scripts().get_current_head()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(migrations())


def migrations() -> Config:
    """Where Alembic finds the changes; ``attributes["connection"]`` is to be set."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
