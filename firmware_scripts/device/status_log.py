"""What the device tells people: its log, and a file on the boot partition that any computer can read.

A device that never shows up has no network to say why. So each step is written to the card first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from host.files import READABLE, replace_file

MOST_LINES = 200
_HEAD = "# What this device did, newest last. docs/bundles.md says what to do about each line.\n"


class StatusLog:
    """Tells.

    Args:
        path: of the file; where its folder is missing, only the log is told.
        wall_s: seconds since 1970; a board without a clock begins somewhere in the past.
        up_s: seconds since the device started.
    """

    def __init__(
        self,
        path: Path,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - an adapter
        up_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._wall_s = wall_s
        self._up_s = up_s

    def __call__(self, text: str) -> None:
        """Write one line, unless it is the last one already. A card that cannot be written to stops nothing."""
        text = " ".join(text.split())[:500]
        print(text, flush=True)  # noqa: T201 - standard output is the log of a unit
        when = datetime.fromtimestamp(self._wall_s(), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        try:
            before = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else _HEAD
            lines = before.splitlines(keepends=True)
            if lines[-1].endswith(f")  {text}\n"):
                return  # a card wears with each write
            lines = [*lines[:1], *lines[1:][-MOST_LINES + 1 :], f"{when} (up {self._up_s():.0f} s)  {text}\n"]
            replace_file(self._path, "".join(lines).encode(), READABLE)
        except OSError as error:
            print(f"{self._path} cannot be written: {error}", file=sys.stderr, flush=True)  # noqa: T201
