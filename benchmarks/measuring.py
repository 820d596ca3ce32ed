"""Timing, printing and error messages of all benchmarks."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from nightjar.wire.errors import NightjarError


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


@contextlib.contextmanager
def errors_in_a_line(name: str) -> Iterator[None]:
    """End the program at an expected error, printed as one line after the benchmark's name, without a traceback."""
    try:
        yield
    except NightjarError as error:
        click.echo(f"{name}: {error}", err=True)
        sys.exit(error.exit_status)


def print_json(result: object) -> None:
    """Print one line of JSON on standard output."""
    click.echo(msgspec.json.encode(result))


def show(title: str, rows: Sequence[Mapping[str, Any]], *, as_json: bool = False, key: str = "runs") -> None:
    """Print rows as a table, or ``{key: rows}`` as one line of JSON."""
    if as_json:
        print_json({key: rows})
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
