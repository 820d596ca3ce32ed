"""Shows how far a run is: in place on a terminal, else a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console

from nightjar.simulation.progress import say

LINE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class RunPart:
    """A part of a run, and how far it is; ``total`` is 0 where nothing is counted.

    >>> str(RunPart("federated", 3, 20, "rounds")), str(RunPart("exporting the model"))
    ('federated: 3 of 20 rounds', 'exporting the model')
    """

    name: str
    done: int = 0
    total: int = 0
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}" if self.total else self.name


class RunProgress:
    """Shows the parts of the run ``what`` while its context is open, each with about how long it will take."""

    def __init__(self, console: Console, what: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console, self._what, self._now_s = console, what, now_s
        self._status = console.status(what)
        self._name, self._began_s, self._said_s = "", 0.0, now_s()

    def __enter__(self) -> RunProgress:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self._status.stop()

    def show(self, part: RunPart) -> None:
        """Show how far a part is."""
        now_s = self._now_s()
        if part.name != self._name:
            self._name, self._began_s = part.name, now_s
        line = f"{self._what}: {part}{self._left(part, now_s - self._began_s)}"
        if self._console.is_terminal:
            self._status.update(line)
        elif now_s >= self._said_s + LINE_EVERY_S:
            self._said_s = now_s
            say(self._console, line)

    @staticmethod
    def _left(part: RunPart, spent_s: float) -> str:
        if not 0 < part.done < part.total:
            return ""
        left_s = spent_s / part.done * (part.total - part.done)
        return f", about {left_s / 60:.0f} min left" if left_s >= 90 else f", about {left_s:.0f} s left"
