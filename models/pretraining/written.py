"""What people wrote before a date, message by message, and what people outside wrote, for measuring.

The time of a message is the column ``time`` of the corpus file: an ISO 8601 date, or a date and a time. People outside
wrote their first message on that date or later, so nothing of theirs is in the model. What somebody else writes from
that date on is used for neither.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nightjar.models.corpora.tsv import TIME, rows
from nightjar.models.vocabulary import words
from nightjar.wire.errors import ConfigError, CorpusError

_DAY = len("2004-11-15")

People = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CorpusMessages:
    """Messages in the order of the file."""

    users: tuple[str, ...]  # names, by the number of the person
    people: People  # (m,) int64, number of the person who wrote each message
    texts: tuple[str, ...]  # m messages
    outside: tuple[str, ...]  # messages of people whose first one is not before the date
    outside_people: int
    others: tuple[str, ...]  # names of everybody in the file whose messages are not among the texts
    before: str | None  # ISO date before which all texts were written; None if the file has no times
    text_sha256: str  # of the file, with what was written later
    used_sha256: str  # of the texts, each as "user TAB text LF"

    @property
    def messages(self) -> list[list[str]]:
        """The words of each text."""
        return [words(text) for text in self.texts]


def written(path: Path, before: str | None) -> CorpusMessages:
    """Read a corpus file. Without a date everything is used, and nobody is outside.

    Raises:
        ConfigError: the date is none.
        CorpusError: the file cannot be read, has no text before the date, or lacks the time of a message.
    """
    if before is not None:
        before = _date(before)
    read = [row for row in rows(path) if row.user and row.text]
    timed = any(row.time for row in read)
    if before is not None:
        _check_times(path, [(row.number, row.time) for row in read])
    early = [before is None or row.time[:_DAY] < before for row in read]
    used = list(itertools.compress(read, early))
    if not any(words(row.text) for row in used):
        msg = f"{path} has no words {f'before {before}' if before else ''}; give a later --before, or another corpus"
        raise CorpusError(msg)
    numbers: dict[str, int] = {}
    people = np.array([numbers.setdefault(row.user, len(numbers)) for row in used], np.int64)
    late = [row for row in read if row.user not in numbers]
    digest = hashlib.sha256()
    for row in used:
        digest.update(f"{row.user}\t{row.text}\n".encode())
    if before is None and timed:
        before = _day_after(path, max(row.time[:_DAY] for row in read))
    return CorpusMessages(
        users=tuple(numbers),
        people=people,
        texts=tuple(row.text for row in used),
        outside=tuple(row.text for row in late),
        outside_people=len({row.user for row in late}),
        others=tuple(dict.fromkeys(row.user for row in late)),
        before=before,
        text_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        used_sha256=digest.hexdigest(),
    )


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        msg = f"--before: expected a date such as 2015-01-01, got {text[:40]!r}"
        raise ConfigError(msg) from error


def _check_times(path: Path, times: Sequence[tuple[int, str]]) -> None:
    for number, time in times:
        try:
            datetime.date.fromisoformat(time[:_DAY])
        except ValueError as error:
            msg = (
                f"{path} line {number}: --before needs a column {TIME} with a date such as 2004-11-15T12:18 "
                f"on each line, got {time[:40]!r}"
            )
            raise CorpusError(msg) from error


def _day_after(path: Path, day: str) -> str:
    try:
        return (datetime.date.fromisoformat(day) + datetime.timedelta(days=1)).isoformat()
    except ValueError as error:
        msg = f"{path}: expected dates such as 2004-11-15T12:18 in the column {TIME}, got {day!r}"
        raise CorpusError(msg) from error
