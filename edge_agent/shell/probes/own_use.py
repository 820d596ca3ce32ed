"""Processor time and memory of this process and its children, so that a session is not mistaken for other work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightjar.edge_agent.shell.probes.files import text

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class OwnUse:
    """CPU seconds, ended children included, and resident memory of a process and its descendants."""

    processor_s: float
    resident_bytes: int


def own_use(root: Path = Path("/")) -> OwnUse:
    """Resources used by this process and its descendants; what cannot be read counts as zero."""
    ticks, pages = 0, 0
    for process in family(root / "proc/self"):
        # The program's name may contain spaces; the fields after it do not. See proc(5).
        fields = text(process / "stat").rpartition(")")[2].split()
        if len(fields) > 21:
            ticks += sum(int(field) for field in fields[11:15])
            pages += int(fields[21])
    return OwnUse(ticks / _TICKS, pages * _PAGE_BYTES)


def family(process: Path) -> Iterator[Path]:
    """The folders in ``/proc`` of a process and its descendants."""
    yield process
    try:
        threads = list(process.glob("task/*/children"))
    except OSError:
        return  # it has just ended
    for thread in threads:
        for child in text(thread).split():
            yield from family(process.parent / child)
