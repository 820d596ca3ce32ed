"""Helpers that the commands share: open the database, create private files, print answers."""

from __future__ import annotations

import datetime
import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

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


def at_the_command_line() -> str:
    """The name under which the audit log has what this user changes."""
    return f"{getpass.getuser()} on the command line"


def noted(action: str, target: str, before: str = "", after: str = "") -> AuditEntry:
    """What this user did now, for the audit log."""
    who = at_the_command_line()
    return AuditEntry(at_s=WallClock().now_s(), who=who, action=action, target=target, before=before, after=after)


def create_for_owner(path: Path) -> int:
    """Create a file that only its owner may read; returns its open descriptor, for writing.

    Raises:
        ConfigError: the file exists already; it is not changed.
        OSError: the file cannot be created.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        msg = f"{path} exists already and is left as it is; give another name, or move it away"
        raise ConfigError(msg) from error


def show(document: object, columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool) -> None:
    """Print an answer on stdout: the whole document for a program, or a table for people."""
    if as_json:
        _print_document(document)
        return
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for row in rows:
        # Text from a device may contain anything, so remove control characters; the console interprets no markup.
        table.add_row(*(_printable(cell) for cell in row))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = 200  # a pipe has no width limit
    console.print(table)


def say(document: object, sentences: Sequence[str], *, as_json: bool) -> None:
    """Print an answer on stdout: the whole document for a program, or sentences for people, each on its own line."""
    if as_json:
        _print_document(document)
        return
    for sentence in sentences:
        click.echo(_printable(sentence))


def _print_document(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def flat(table: dict[str, Any], where: str = "") -> list[tuple[str, object]]:
    """The fields of nested tables as cells, without empty ones.

    >>> flat({"spread": {"mean": 0.5, "p10": None}, "reports": [1, 2], "labels": ()})
    [('spread.mean', 0.5), ('reports', '1, 2')]
    """
    cells: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            cells += flat(value, f"{where}{name}.")
        elif value not in (None, "", [], ()):
            cells.append((where + name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value))
    return cells


def when(seconds: float) -> str:
    """A date and time for people, in UTC; "-" for 0."""
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).isoformat(" ", "seconds") if seconds else "-"


def _printable(cell: object) -> str:
    text = "-" if cell is None else str(cell)
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
