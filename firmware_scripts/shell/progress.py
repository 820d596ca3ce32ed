"""Shows each card's progress on standard error: bars on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.ports import ProgressReport, WorkPhase
from nightjar.host.sizes import size_text

LINE_EVERY_S = 5.0
_DOING = {WorkPhase.SURVEY: "looking through", WorkPhase.WRITE: "writing", WorkPhase.VERIFY: "reading back"}


@contextmanager
def display() -> Iterator[Callable[[str], ProgressReport]]:
    """Show bars if standard error is a terminal, lines otherwise; yields what makes the report of a card or image."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(time.monotonic, partial(print, file=sys.stderr, flush=True)).report_for
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield partial(_bar, progress)


class ProgressLines:
    """Writes a line at the start and end of each phase, and every :data:`LINE_EVERY_S` in between. Thread-safe."""

    def __init__(self, clock: Callable[[], float], write_line: Callable[[str], None]) -> None:
        self._clock = clock
        self._write_line = write_line
        self._lock = threading.Lock()

    def report_for(self, name: str) -> ProgressReport:
        """Create the progress report for ``name``."""
        name = printable(name)
        current: WorkPhase | None = None
        started = shown = 0.0

        def report(phase: WorkPhase, done_bytes: int, total_bytes: int | None) -> None:
            nonlocal current, started, shown
            now = self._clock()
            if phase is not current:
                current, started, shown = phase, now, now - LINE_EVERY_S
            if now - shown >= LINE_EVERY_S or done_bytes == total_bytes:
                shown = now
                with self._lock:
                    self._write_line(f"{name}: {_DOING[phase]}: {_how_far(done_bytes, total_bytes, now - started)}")

        return report


def _bar(progress: Progress, name: str) -> ProgressReport:
    name = printable(name, 30)
    tasks: dict[WorkPhase, TaskID] = {}

    def report(phase: WorkPhase, done_bytes: int, total_bytes: int | None) -> None:
        if phase not in tasks:
            tasks[phase] = progress.add_task(f"{name}: {_DOING[phase]}", total=total_bytes)
        progress.update(tasks[phase], completed=done_bytes, total=total_bytes)

    return report


def _how_far(done_bytes: int, total_bytes: int | None, elapsed_s: float) -> str:
    rate = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    speed = f", {size_text(int(rate))}/s" if rate else ""
    if not total_bytes:
        return f"{size_text(done_bytes)}{speed}"
    remaining = f", {_minutes((total_bytes - done_bytes) / rate)} left" if rate and done_bytes < total_bytes else ""
    return f"{100 * done_bytes // total_bytes} % of {size_text(total_bytes)}{speed}{remaining}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
