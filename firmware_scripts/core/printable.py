"""Makes text safe and short enough to display: the names of disks come from firmware that anyone can write.

Escape sequences in a model name must not move the cursor.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime


def printable(text: str, limit: int = 80) -> str:
    r"""``text`` on one line without terminal control characters, cut to ``limit`` characters.

    Controls, direction marks, private and unassigned characters become ``?``.

    >>> printable("Card\x1b[2J\nReader")
    'Card?[2J?Reader'
    >>> printable("x" * 9, limit=5)
    'xxxx…'
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join("?" if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" else c for c in text)


def time_text(time_s: float) -> str:
    """A time in seconds since 1970, in UTC to the minute.

    >>> time_text(0.0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
