"""Makes text safe and short enough to display: the names of disks come from firmware that anyone can write.

Escape sequences in a model name must not move the cursor. Sizes are shown as printed on a card (powers of ten).
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


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


def size_text(size_bytes: int) -> str:
    """A size with about three digits, in the units printed on cards.

    >>> size_text(31_914_983_424)
    '31.9 GB'
    >>> size_text(512)
    '512 bytes'
    """
    size, unit = float(size_bytes), 0
    while size >= 999.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size_bytes} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
