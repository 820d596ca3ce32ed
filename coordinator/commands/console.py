"""How commands answer people and programs: tables, sentences, JSON documents, and files for their owner alone."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from nightjar.coordinator.views.words import calendar_time
from nightjar.host.configuration import flattened
from nightjar.wire.errors import ConfigError


def at_the_command_line() -> str:
    """The name under which the audit log has what this user changes."""
    return f"{getpass.getuser()} on the command line"


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
        table.add_row(*(printable(cell) for cell in row))
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
        click.echo(printable(sentence))


def _print_document(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def flat(table: dict[str, Any], where: str = "") -> list[tuple[str, object]]:
    """The fields of nested tables as cells, without empty ones.

    >>> flat({"spread": {"mean": 0.5, "p10": None}, "reports": [1, 2], "labels": ()})
    [('spread.mean', 0.5), ('reports', '1, 2')]
    """
    return [
        (where + name, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value)
        for name, value in flattened(table)
        if value not in (None, "", [], ())
    ]


def when(seconds: float) -> str:
    """A date and time for people, in UTC; "-" for 0."""
    return calendar_time(seconds).isoformat(" ", "seconds") if seconds else "-"


def printable(cell: object) -> str:
    r"""A value in words for a terminal, without the characters that would steer it.

    >>> printable(True), printable("\x1b[31mred")
    ('yes', '?[31mred')
    """
    match cell:
        case None:
            text = "-"
        case bool():
            text = "yes" if cell else "no"
        case _:
            text = str(cell)
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
