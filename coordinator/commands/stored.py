"""What commands read and write without the running service: the database, the artifacts and the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from nightjar.coordinator.commands.console import at_the_command_line
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file, database_url
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.wire.errors import ConfigError


@contextmanager
def opened(config: CoordinatorConfig) -> Iterator[Database]:
    """Open the database of a coordinator, which may be running; the tables are not migrated.

    Raises:
        ConfigError: there is no database, or its tables have another version than this program's.
        UnavailableError: the database cannot be read.
    """
    path = database_file(config.data_dir)
    if not config.database_url and not path.is_file():
        msg = f"there is no database {path}: run 'serve' first, or set data_dir in the configuration"
        raise ConfigError(msg)
    with closing(Database(database_url(config), migrate=False)) as database:
        yield database


@contextmanager
def opened_artifacts(config: CoordinatorConfig) -> Iterator[FileBlobs]:
    """Open the artifacts of a coordinator.

    Raises:
        ConfigError: there is no database, or its tables have another version than this program's.
        UnavailableError: the database cannot be read.
    """
    with opened(config) as database:
        yield open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, database)


def noted(action: str, target: str, before: str = "", after: str = "") -> AuditEntry:
    """What this user did now, for the audit log."""
    who = at_the_command_line()
    return AuditEntry(at_s=WallClock().now_s(), who=who, action=action, target=target, before=before, after=after)
