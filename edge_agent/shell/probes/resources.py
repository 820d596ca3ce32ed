"""Probes for free disk space and free memory: a session must not make a device run out of either."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.files import text
from nightjar.edge_agent.shell.probes.own_use import own_use


def free_bytes(folder: Path) -> int:
    """Bytes that an ordinary user may still write below a folder."""
    filesystem = os.statvfs(folder)
    return filesystem.f_bavail * filesystem.f_frsize


@dataclass(frozen=True, slots=True)
class Disk:
    """Probe for free disk space."""

    folder: Path
    minimum_bytes: int
    free_bytes: Callable[[Path], int] = free_bytes

    def __call__(self) -> Readings:
        """Take a reading now."""
        try:
            free = self.free_bytes(self.folder)
        except OSError as error:
            reading = ConditionReading(Answer.UNKNOWN, str(self.folder), error.strerror or "not readable")
        else:
            reading = _reading(free, self.minimum_bytes, str(self.folder), "disk")
        return {Condition.DISK_FREE: reading}


@dataclass(frozen=True, slots=True)
class Memory:
    """Probe for free memory. The agent's own memory counts as free, or a session would stop itself."""

    root: Path
    minimum_bytes: int
    own_bytes: Callable[[], int] = lambda: own_use().resident_bytes

    def __call__(self) -> Readings:
        """Take a reading now."""
        for line in text(self.root / "proc/meminfo").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable" and value.split()[:1] and value.split()[0].isdigit():
                free = 1024 * int(value.split()[0]) + self.own_bytes()
                return {Condition.MEMORY_FREE: _reading(free, self.minimum_bytes, "/proc/meminfo", "memory")}
        return {Condition.MEMORY_FREE: ConditionReading(Answer.UNKNOWN, "/proc/meminfo", "free memory not known")}


def _reading(free: int, minimum: int, source: str, what: str) -> ConditionReading:
    too_little = f"less than {minimum // 1_000_000} MB of {what} free"
    return yes_or_no(free >= minimum, source, f"enough {what} free", too_little)
