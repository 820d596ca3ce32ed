"""A log file that no stranger can fill: a limit of lines by address and kind, and of the file's size.

For the log of a child process that writes a line for each connection somebody tries. The rule is pure; the file keeps
one older half beside it, so that it never takes more than twice :data:`MOST_BYTES`.
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections import OrderedDict
from pathlib import Path

from nightjar.host.files import private_file

MOST_BYTES = 4 * 2**20
"""A file of this size becomes the older half: a week of what goes wrong in a small fleet."""
LINES_AN_HOUR = 20
"""Lines of one address, or of one kind without an address; more say nothing new."""
MOST_ADDRESSES = 4096
"""Addresses and kinds that are counted at a time; whoever has more addresses is still bounded by the file's size."""
LONGEST_LINE = 1000
HOUR_S = 3600.0

_ADDRESS = re.compile(rb"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})(?![\w.])")
_VARIES = re.compile(rb"[0-9A-Fa-f]*\d[0-9A-Fa-f]*")


class LineLimit:
    """Lets a limited number of lines through; pure.

    >>> limit = LineLimit(lines=1)
    >>> [limit.admitted(b"1: error of 10.0.0.1:5", at) for at in (0.0, 1.0, 4000.0)]
    [[b'1: error of 10.0.0.1:5'], [], [b'1 more lines of 10.0.0.1 were left out', b'1: error of 10.0.0.1:5']]
    """

    def __init__(self, lines: int = LINES_AN_HOUR) -> None:
        self._lines = lines
        self._counted: OrderedDict[bytes, tuple[float, int]] = OrderedDict()  # what it is about -> since, lines

    def admitted(self, line: bytes, now_s: float) -> list[bytes]:
        """What is to be written now that a line came; ``now_s`` is of a clock that never jumps."""
        about = _about(line)
        since_s, many = self._counted.pop(about, (now_s, 0))
        told: list[bytes] = []
        if now_s - since_s >= HOUR_S:
            left_out = many - self._lines
            told = [b"%d more lines of %s were left out" % (left_out, about)] if left_out > 0 else []
            since_s, many = now_s, 0
        self._counted[about] = since_s, many + 1
        while len(self._counted) > MOST_ADDRESSES:
            self._counted.popitem(last=False)
        return [*told, line] if many < self._lines else told


def _about(line: bytes) -> bytes:
    """The address that a line names, else the line without what varies."""
    found = _ADDRESS.search(line)
    return found[0] if found else _VARIES.sub(b"#", line)[:200]


class LimitedLog:
    """A log file that is written through a :class:`LineLimit`.

    Args:
        path: the file; the older half is beside it with the suffix ``.1``.
        most_bytes: size at which the file becomes the older half.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._most_bytes = path, most_bytes
        self._limit = LineLimit()

    def write(self, line: bytes, now_s: float) -> None:
        """Write a line, if the limit lets it through. A disk that is full loses it."""
        for each in self._limit.admitted(line.rstrip()[:LONGEST_LINE], now_s):
            with contextlib.suppress(OSError):
                self._append(each + b"\n")

    def _append(self, line: bytes) -> None:
        shorten(self._path, self._most_bytes)
        with self._path.open("ab") as file:
            file.write(line)


def shorten(path: Path, most_bytes: int = MOST_BYTES) -> None:
    """Begin a log file anew if it is too long, or no file; what was in its place becomes the older half.

    Raises:
        OSError: the file cannot be created or renamed.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        private_file(path)
        return
    if status.st_size >= most_bytes or not stat.S_ISREG(status.st_mode):
        path.replace(path.with_name(path.name + ".1"))
        private_file(path)
