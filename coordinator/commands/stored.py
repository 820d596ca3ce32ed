"""What commands read and write without the running service: the database, the artifacts and the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from nightjar.coordinator.commands.console import at_the_command_line
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import REMEDY, WallClock
from nightjar.coordinator.storage.apart import lost_before
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file, database_url
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.host.system_clock import read_clock
from nightjar.host.trusted_time import ClockReading, TimeMark, distrust
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


def why_distrusted(config: CoordinatorConfig, reading: ClockReading) -> str:
    """Why the service would not trust the machine's clock; empty if it would, and where none ever ran.

    Raises:
        ConfigError: the tables have another version than this program's.
        UnavailableError: the database cannot be read.
    """
    if not config.database_url and not database_file(config.data_dir).is_file():
        return ""
    with opened(config) as database, database.transaction() as view:
        return _why_distrusted(view, reading)


def trusted_now_s(config: CoordinatorConfig) -> float:
    """The machine's time, for what a command deletes or signs by it.

    Raises:
        ConfigError: the service would not trust this time either, or the tables have another version.
        UnavailableError: the database cannot be read.
    """
    reading = read_clock()
    if why := why_distrusted(config, reading):
        msg = f"{why}; {REMEDY}"
        raise ConfigError(msg)
    return reading.wall_s


def lost_before_now(view: DatabaseView) -> float:
    """Devices last heard of before this time are lost; 0 while the service would not trust the machine's clock."""
    reading = read_clock()
    return lost_before(reading.wall_s, _why_distrusted(view, reading))


def _why_distrusted(view: DatabaseView, reading: ClockReading) -> str:
    newest_s = view.trusted_time()
    return "" if newest_s is None else distrust(TimeMark(newest_s), reading)
