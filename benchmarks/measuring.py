"""Timing and printing for all benchmarks."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table


def time_ms(action: Callable[[], object]) -> float:
    """Wall time of one call, ms."""
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def cpu_time_s(pid: int) -> float:
    """CPU time of a process so far, user and system.

    It reads the process's CPU-time clock, which has a resolution of nanoseconds; /proc counts ticks of 10 ms, and a
    small round takes less. The clock id is computed as in clock_getcpuclockid(3).

    Raises:
        OSError: there is no such process.
    """
    return time.clock_gettime((~pid << 3) | 2)


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of the values at ``share``, 0 to 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    """The median of the values."""
    return statistics.median(values)


def show(title: str, rows: Sequence[Mapping[str, Any]], *, as_json: bool, key: str) -> None:
    """Print rows as a table, or ``{key: rows}`` as one line of JSON."""
    if as_json:
        sys.stdout.write(msgspec.json.encode({key: rows}).decode() + "\n")
        return
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(width=max(140, Console().width)).print(table)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
