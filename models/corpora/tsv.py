"""Reads a corpus from a file of (user, text) rows.

The format is UTF-8, tab-separated, one message a line, with a header line that names at least the columns ``user`` and
``text``. Other columns are ignored; a tab inside the last column belongs to it. Rows keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nightjar.models.corpora.corpus import Corpus
from nightjar.wire.errors import CorpusError


def tsv(path: Path) -> Corpus:
    """Read a corpus file. Rows without a user or without text are skipped and counted.

    Raises:
        CorpusError: not a readable file, not UTF-8, a header without these columns, or no row with user and text.
    """
    try:
        with path.open("rb") as lines:
            return _read(path, lines)
    except FileNotFoundError as error:
        msg = f"there is no corpus file {path}; give 'personas', 'pydoc' or the path of a tab-separated file"
        raise CorpusError(msg) from error
    except IsADirectoryError as error:
        msg = f"expected a corpus file, got the folder {path}; give the path of a tab-separated file in it"
        raise CorpusError(msg) from error
    except OSError as error:
        msg = f"cannot read the corpus file {path}: {error.strerror or error}"
        raise CorpusError(msg) from error


def _read(path: Path, lines: Iterable[bytes]) -> Corpus:
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
    last = max(user_at, text_at)

    users: dict[str, list[str]] = {}
    rows = skipped = 0
    for number, line in numbered:
        rows += 1
        fields = _text(path, number, line).split("\t", len(header) - 1)
        user, text = (fields[user_at].strip(), fields[text_at].strip()) if len(fields) > last else ("", "")
        if user and text:
            users.setdefault(user, []).append(text)
        else:
            skipped += 1
    if not users:
        msg = f"{path} has no row with a user and a text ({rows} rows, all skipped); expected both on each line"
        raise CorpusError(msg)
    return Corpus(path.name, {user: tuple(messages) for user, messages in users.items()}, skipped)


def _text(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        msg = f"{path} line {number}: expected UTF-8, got the byte 0x{line[error.start]:02x}; convert the file to UTF-8"
        raise CorpusError(msg) from error
