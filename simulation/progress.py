"""How far a command is: a bar on a terminal, about ten plain lines a task elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")

LINES = 10
"""So many a task, where there is no terminal."""


def say(console: Console, line: str) -> None:
    """Print one line as it is, whatever the width of the terminal."""
    console.print(line, highlight=False, soft_wrap=True)


def progress(console: Console, items: Sequence[T], what: str) -> Iterator[T]:
    """Each item, with word of how far that is.

    Args:
        console: where to show it.
        items: what is worked on.
        what: the items, for people.
    """
    if console.is_terminal:
        yield from track(items, description=what, console=console)
        return
    step = -(-len(items) // LINES)
    for done, item in enumerate(items, 1):
        yield item
        if done % step == 0 or done == len(items):
            say(console, f"{what}: {done} of {len(items)}")
