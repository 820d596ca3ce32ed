"""The schema version: creates the tables or upgrades them in one transaction.

A program that is older than its database reports an error and changes nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from nightjar.host.files import private_file
from nightjar.wire.errors import ConfigError, UnavailableError

_log = structlog.get_logger("coordinator")


def upgrade(engine: sa.Engine) -> None:
    """Bring the tables up to date, if they are not.

    Raises:
        ConfigError: a newer Nightjar made the tables.
        DBAPIError: the database does not work.
    """
    with engine.connect() as connection:
        version = _version(connection)
        if version == head():
            return
        connection.rollback()
        if engine.dialect.name == "sqlite":
            # Python's driver does not start a transaction by itself for DDL statements.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        if version is not None:
            _log.info("database_upgrade", tables=version, wanted=head())
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()


def check(engine: sa.Engine) -> None:
    """Check that the tables have the version of this program.

    Raises:
        ConfigError: the tables are older or newer.
        DBAPIError: the database does not work.
    """
    with engine.connect() as connection:
        version = _version(connection)
    if version != head():
        held = "no tables yet, or none that say their version" if version is None else f"tables of version {version}"
        msg = (
            f"the database has {held}, this program wants {head()}; start this program's 'nightjar-coordinator serve', "
            "which brings them up to date, or says what is wrong"
        )
        raise ConfigError(msg)


def copy_sqlite(source: Path, target: Path) -> None:
    """Take a consistent copy of a SQLite database that may be in use; deleted data is not in the copy.

    Raises:
        UnavailableError: the database cannot be read, or the disk is full.
    """
    try:
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as held:
            private_file(target)
            held.execute("VACUUM INTO ?", (str(target),))
    except (OSError, sqlite3.Error) as error:
        msg = f"cannot copy the database {source} to {target}: {error}"
        raise UnavailableError(msg) from error


def _version(connection: sa.Connection) -> str | None:
    """The version of the tables; None for an empty database."""
    version = MigrationContext.configure(connection).get_current_revision()
    if version is not None and version not in {script.revision for script in _scripts().walk_revisions()}:
        msg = (
            f"the database has tables of version {version}, this program knows them up to {head()} only: a newer "
            "Nightjar made them; run that one, or restore the backup from before its upgrade"
        )
        raise ConfigError(msg)
    return version


def head() -> str | None:
    """The version of the tables that this program needs."""
    return _scripts().get_current_head()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(migrations())


def migrations() -> Config:
    """Alembic's configuration; the caller must set ``attributes["connection"]``."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
