"""The device's status messages: its log, and a file on the boot partition that any computer can read.

A device that never comes online cannot report why over the network, so each step is also written to the card.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from nightjar.host.files import READABLE, replace_file

MOST_LINES = 200
_HEAD = "# What this device did, newest last. docs/bundles.md says what to do about each line.\n"


class StatusLog:
    """Writes status messages; if the folder of ``path`` is missing, only to the log.

    ``wall_s`` returns seconds since 1970, on a board without a clock somewhere in the past; ``up_s`` since the boot.
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
        """Write one line, unless the last line has the same text. A card that cannot be written to stops nothing."""
        text = " ".join(text.split())[:500]
        print(text, flush=True)  # noqa: T201 - standard output is the log of a unit
        when = datetime.fromtimestamp(self._wall_s(), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        try:
            before = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
            lines = (before or _HEAD).splitlines(keepends=True)  # a power cut leaves an empty file on FAT
            if lines[-1].endswith(f")  {text}\n"):
                return  # each write wears the card
            lines = [*lines[:1], *lines[1:][-MOST_LINES + 1 :], f"{when} (up {self._up_s():.0f} s)  {text}\n"]
            replace_file(self._path, "".join(lines).encode(), READABLE)
        except OSError as error:
            print(f"{self._path} cannot be written: {error}", file=sys.stderr, flush=True)  # noqa: T201
