"""What this process and its children use of the device, so that a session is not taken for somebody else's work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edge_agent.shell.probes.files import text

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class OwnUse:
    """Use of a process and its descendants.

    Attributes:
        processor_s: CPU seconds since they began, ended children included.
        resident_bytes: memory.
    """

    processor_s: float
    resident_bytes: int


def own_use(root: Path = Path("/")) -> OwnUse:
    """Use of this process and everything that it started; what cannot be read counts nothing."""
    ticks, pages = 0, 0
    for process in _family(root / "proc/self"):
        # The name of the program may hold blanks; the fields behind it do not. See proc(5).
        fields = text(process / "stat").rpartition(")")[2].split()
        if len(fields) > 21:
            ticks += sum(int(field) for field in fields[11:15])
            pages += int(fields[21])
    return OwnUse(ticks / _TICKS, pages * _PAGE_BYTES)


def _family(process: Path) -> Iterator[Path]:
    yield process
    try:
        threads = list(process.glob("task/*/children"))
    except OSError:
        return  # it ended just now, while we were looking
    for thread in threads:
        for child in text(thread).split():
            yield from _family(process.parent / child)
