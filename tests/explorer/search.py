"""Visits every state that a small world of state machines can reach, whatever the order of events, breadth first.

The world is given by a start, a function that lists the moves from a state, and rules in words. The first rule that is
broken comes with the shortest way there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Explored(Generic[StateT]):
    """All that was reached.

    Attributes:
        states: how many states there are.
        ends: those without a move.
        rule: the broken rule, in words; empty if all held everywhere.
        way: names of the moves to where it was broken.
    """

    states: int
    ends: tuple[StateT, ...]
    rule: str = ""
    way: tuple[str, ...] = ()


def explore(
    start: StateT,
    moves: Callable[[StateT], Iterable[tuple[str, StateT]]],
    rules: Mapping[str, Callable[[StateT], bool]],
    *,
    most: int = 1_000_000,
) -> Explored[StateT]:
    """Visit all states.

    Args:
        start: the first state.
        moves: name and following state of each move; a move that changes nothing may be listed.
        rules: by rule in words, whether it holds in a state.
        most: more states are an error of the model.

    >>> explore(0, lambda n: [("add", n + 1)] if n < 3 else [], {"below two": lambda n: n < 2}).way
    ('add', 'add')
    """
    came: dict[StateT, tuple[StateT, str] | None] = {start: None}
    waiting, ends = [start], []
    for state in waiting:  # grows while it is walked
        for rule, holds in rules.items():
            if not holds(state):
                return Explored(len(came), tuple(ends), rule, _way(state, came))
        following = [(name, after) for name, after in moves(state) if after != state]
        if not following:
            ends.append(state)
        for name, after in following:
            if after not in came:
                came[after] = (state, name)
                waiting.append(after)
        if len(came) > most:
            msg = f"more than {most} states: the world is too large to visit"
            raise MemoryError(msg)
    return Explored(len(came), tuple(ends))


def _way(state: StateT, came: Mapping[StateT, tuple[StateT, str] | None]) -> tuple[str, ...]:
    names: list[str] = []
    step = came[state]
    while step is not None:
        names.append(step[1])
        step = came[step[0]]
    return tuple(reversed(names))
