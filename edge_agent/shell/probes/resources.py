"""Room on the disk and in memory: a session must not be what makes a device run out of either."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from edge_agent.shell.probes.files import text
from edge_agent.shell.probes.own_use import own_use


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write below a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class Disk:
    """A probe.

    Attributes:
        folder: of the agent's data.
        minimum_bytes: the least that must be free.
        free_bytes: tells it.
    """

    folder: Path
    minimum_bytes: int
    free_bytes: Callable[[Path], int] = free_bytes

    def __call__(self) -> Readings:
        """Look now."""
        try:
            free = self.free_bytes(self.folder)
        except OSError as error:
            said = ConditionReading(Answer.UNKNOWN, str(self.folder), error.strerror or "not readable")
        else:
            said = _reading(free, self.minimum_bytes, str(self.folder), "disk")
        return {Condition.DISK_FREE: said}


@dataclass(frozen=True, slots=True)
class Memory:
    """A probe. What we hold ourselves counts as free, or a session would stop itself.

    Attributes:
        root: where ``proc`` is.
        minimum_bytes: the least that must be available.
        own_bytes: what we and our children hold.
    """

    root: Path
    minimum_bytes: int
    own_bytes: Callable[[], int] = lambda: own_use().resident_bytes

    def __call__(self) -> Readings:
        """Look now."""
        for line in text(self.root / "proc/meminfo").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable" and value.split()[:1] and value.split()[0].isdigit():
                free = 1024 * int(value.split()[0]) + self.own_bytes()
                return {Condition.MEMORY_FREE: _reading(free, self.minimum_bytes, "/proc/meminfo", "memory")}
        return {Condition.MEMORY_FREE: ConditionReading(Answer.UNKNOWN, "/proc/meminfo", "free memory not known")}


def _reading(free: int, minimum: int, source: str, what: str) -> ConditionReading:
    if free < minimum:
        return ConditionReading(Answer.NO, source, f"less than {minimum // 1_000_000} MB of {what} free")
    return ConditionReading(Answer.YES, source, f"enough {what} free")
