"""Reads a corpus from a file of (user, text) rows.

The format is UTF-8, tab-separated, one message a line, with a header line that names at least the columns ``user`` and
``text``. Other columns are ignored, except ``time`` where a caller asks for it; a tab inside the last column belongs to
it. Rows keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nightjar.models.corpora.corpus import Corpus
from nightjar.wire.errors import CorpusError

TIME = "time"
"""Column of the times, which only some commands use."""


class CorpusLine(NamedTuple):
    """One line of a corpus file; user or text is empty if the line has none."""

    number: int  # of the line, from 1
    user: str
    text: str
    time: str  # empty if the file has no such column


def tsv(path: Path) -> Corpus:
    """Read a corpus file. Rows without a user or without text are skipped and counted.

    Raises:
        CorpusError: see :func:`rows`.
    """
    users: dict[str, list[str]] = {}
    skipped = 0
    for row in rows(path):
        if row.user and row.text:
            users.setdefault(row.user, []).append(row.text)
        else:
            skipped += 1
    return Corpus(path.name, {user: tuple(messages) for user, messages in users.items()}, skipped)


def rows(path: Path) -> Iterator[CorpusLine]:
    """The lines of a corpus file after its header.

    Raises:
        CorpusError: not a readable file, not UTF-8, a header without the columns, or no row with user and text.
    """
    try:
        with path.open("rb") as lines:
            yield from _read(path, lines)
    except FileNotFoundError as error:
        msg = f"there is no corpus file {path}; give 'personas', 'pydoc' or the path of a tab-separated file"
        raise CorpusError(msg) from error
    except IsADirectoryError as error:
        msg = f"expected a corpus file, got the folder {path}; give the path of a tab-separated file in it"
        raise CorpusError(msg) from error
    except OSError as error:
        msg = f"cannot read the corpus file {path}: {error.strerror or error}"
        raise CorpusError(msg) from error


def _read(path: Path, lines: Iterable[bytes]) -> Iterator[CorpusLine]:
    numbered = enumerate(lines, 1)
    _, first = next(numbered, (0, b""))
    header = _text(path, 1, first.removeprefix(b"\xef\xbb\xbf")).split("\t")
    if not first.strip():
        msg = f"{path} is empty or begins with an empty line; expected a header line with the columns user and text"
        raise CorpusError(msg)
    missing = [column for column in ("user", "text") if column not in header]
    if missing:
        msg = (
            f"{path} line 1: expected a tab-separated header with the columns user and text, "
            f"got {len(header)} column(s) {[column[:40] for column in header[:8]]} without {' and '.join(missing)}"
        )
        raise CorpusError(msg)
    user_at, text_at = header.index("user"), header.index("text")
    time_at = header.index(TIME) if TIME in header else None
    last = max(user_at, text_at)

    found = any_usable = 0
    for number, line in numbered:
        found += 1
        fields = _text(path, number, line).split("\t", len(header) - 1)
        user, text = (fields[user_at].strip(), fields[text_at].strip()) if len(fields) > last else ("", "")
        any_usable += bool(user and text)
        yield CorpusLine(
            number, user, text, fields[time_at].strip() if time_at is not None and len(fields) > time_at else ""
        )
    if not any_usable:
        msg = f"{path} has no row with a user and a text ({found} rows, all skipped); expected both on each line"
        raise CorpusError(msg)


def _text(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        msg = f"{path} line {number}: expected UTF-8, got the byte 0x{line[error.start]:02x}; convert the file to UTF-8"
        raise CorpusError(msg) from error
