"""Probes for whether the device is in use: typing on our own keyboard, on terminals, and on input devices.

Only the fact and the time of a key press are noted: the data from an input device is discarded unread.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.files import text

NOTE_EVERY_S = 1.0
"""Key presses closer together than this are noted only once."""
_ACCELEROMETER = 1 << 6
"""INPUT_PROP_ACCELEROMETER: an accelerometer sends events all the time, even if the device is not in use."""


class LastUse:
    """How long ago the device was last used, of which a wall clock's time is kept. Thread-safe.

    Only the first time that is seen is compared with the wall clock; from then on the clock that never jumps counts.
    Otherwise a key that was pressed while the clock was a year ahead would be use for a year.
    """

    def __init__(self) -> None:
        self._seen: tuple[float, float, float] | None = None  # the time kept, how old it was, and when that was seen

    def ago_s(self, last_s: float, wall_s: float, running_s: float) -> float:
        """Seconds since ``last_s``; ``running_s`` is now on a clock that never jumps.

        >>> use = LastUse()
        >>> use.ago_s(900.0, 1000.0, 5.0), use.ago_s(900.0, 0.0, 6.0)
        (100.0, 101.0)
        >>> use.ago_s(1010.0, 1010.0, 15.0), use.ago_s(1010.0, 10.0, 25.0)
        (0.0, 10.0)
        """
        seen = self._seen
        if seen is None or seen[0] != last_s:
            age_s = max(0.0, wall_s - last_s) if seen is None or last_s == -math.inf else 0.0
            seen = self._seen = (last_s, age_s, running_s)
        return seen[1] + running_s - seen[2]


class TypingActivity:
    """When somebody last typed on our own keyboard page. Thread-safe.

    Kept as the modification time of a file, so that a restarted agent and ``nightjar-agent conditions`` know it too.
    """

    def __init__(
        self,
        path: Path,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - an adapter
        running_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._wall_s, self._running_s = wall_s, running_s
        self._last = LastUse()

    def note(self) -> None:
        """Record that somebody typed just now."""
        now_s = self._wall_s()
        if abs(now_s - _time_s(self._path, "st_mtime")) < NOTE_EVERY_S:
            return
        # A full disk must not keep the user from typing.
        with contextlib.suppress(OSError):
            self._path.touch(mode=0o600)
            os.utime(self._path, (now_s, now_s))

    def idle_s(self) -> float:
        """Seconds since somebody last typed; infinite if never."""
        return self._last.ago_s(_time_s(self._path, "st_mtime"), self._wall_s(), self._running_s())


@dataclass(frozen=True, slots=True)
class Keyboard:
    """Probe for our own keyboard."""

    typing: TypingActivity
    idle_after_s: float

    def __call__(self) -> Readings:
        """Take a reading now."""
        return use_readings(self.typing.idle_s(), self.idle_after_s, "our keyboard")


@dataclass(frozen=True, slots=True)
class Terminals:
    """Probe for terminals: the kernel sets a terminal's access time at each key from a console or over ssh."""

    root: Path
    idle_after_s: float
    wall_s: Callable[[], float] = time.time  # noqa: TID251 - an adapter
    running_s: Callable[[], float] = time.monotonic
    last: LastUse = field(default_factory=LastUse)

    def __call__(self) -> Readings:
        """Take a reading now."""
        paths = (*self.root.glob("dev/tty[1-9]"), *self.root.glob("dev/pts/[0-9]*"))
        last_s = max((_time_s(path, "st_atime") for path in paths), default=-math.inf)
        idle_s = self.last.ago_s(last_s, self.wall_s(), self.running_s())
        return use_readings(idle_s, self.idle_after_s, "terminals")


class InputDevices:
    """Probe for ``/dev/input/event*``, as far as the agent may read them (group ``input``)."""

    def __init__(self, root: Path, idle_after_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._idle_after_s = idle_after_s
        self._now_s = now_s
        self._open: dict[str, int] = {}
        self._last_s = -math.inf

    def __call__(self) -> Readings:
        """Take a reading now."""
        for path in self._root.glob("dev/input/event*"):
            if path.name not in self._open and not self._is_accelerometer(path.name):
                with contextlib.suppress(OSError):
                    self._open[path.name] = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        for name, descriptor in list(self._open.items()):
            try:
                if any(_drained(descriptor)):
                    self._last_s = self._now_s()
            except OSError:
                # Unplugged.
                os.close(self._open.pop(name))
        if not self._open:
            return {Condition.IDLE: ConditionReading(Answer.UNKNOWN, "input devices", "none that we may read")}
        return use_readings(self._now_s() - self._last_s, self._idle_after_s, "input devices")

    def close(self) -> None:
        """Close the devices."""
        while self._open:
            os.close(self._open.popitem()[1])

    def _is_accelerometer(self, name: str) -> bool:
        try:
            # Words of 64 bits in hexadecimal, the least significant last.
            return bool(
                int(text(self._root / f"sys/class/input/{name}/device/properties").split()[-1], 16) & _ACCELEROMETER
            )
        except (ValueError, IndexError):
            return False


def use_readings(idle_s: float, idle_after_s: float, source: str) -> Readings:
    """Idle if the last input is at least ``idle_after_s`` seconds ago.

    >>> use_readings(3.0, 60.0, "terminals")[Condition.IDLE].reason
    'in use'
    """
    return {Condition.IDLE: yes_or_no(idle_s >= idle_after_s, source, "idle", "in use")}


def _drained(descriptor: int) -> Iterator[bool]:
    """Read and discard all pending events; yields whether there were any."""
    while True:
        try:
            came = bool(os.read(descriptor, 4096))
        except BlockingIOError:
            return
        yield came
        if not came:
            return


def _time_s(path: Path, which: str) -> float:
    try:
        return float(getattr(path.stat(), which))
    except OSError:
        return -math.inf
