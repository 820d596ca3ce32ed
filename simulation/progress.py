"""Shows the progress of a command: a bar on a terminal, otherwise about ten lines per task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")

LINES = 10
"""Number of lines per task without a terminal."""


def say(console: Console, line: str) -> None:
    """Print one line unchanged, without wrapping it."""
    console.print(line, highlight=False, soft_wrap=True)


def progress(console: Console, items: Sequence[T], what: str) -> Iterator[T]:
    """Iterate over items and show the progress."""
    if console.is_terminal:
        yield from track(items, description=what, console=console)
        return
    step = -(-len(items) // LINES)
    for done, item in enumerate(items, 1):
        yield item
        if done % step == 0 or done == len(items):
            say(console, f"{what}: {done} of {len(items)}")
