"""Transition tables: the common form of every state machine in Nightjar.

A row names a state, an event, a function ``(state, event) -> (next state, effects)`` and the states that it may lead
to. The tests check these states, and the diagrams in ``docs/round.md`` are drawn from them. A pair without a row raises
:class:`IllegalEvent`; nothing is modified in place, so the caller keeps its state.

A machine's rows are the first code of its module, inside a function, because they refer to functions defined below.
mypy checks that each function accepts the event of its row (and the state, if states are types), and that all return
the same type of result.

Source: python-hyper/h11, where the table is the whole protocol.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from nightjar.wire.errors import IllegalEvent

StateT = TypeVar("StateT")
EventT = TypeVar("EventT")
ToolsP = ParamSpec("ToolsP")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Row(Generic[ResultT]):
    """The transition for an event in a state; where a machine calls something, its handlers take the tools for it."""

    state: object  # the state: a member of an enumeration, or the type of a state
    event: type[Any]  # type of the event
    handle: Callable[..., ResultT]  # (state, event[, tools]) -> the step's result
    leads_to: frozenset[object]  # the possible next states


@overload
def row(
    state: enum.Enum,
    event: type[EventT],
    handle: Callable[Concatenate[StateT, EventT, ToolsP], ResultT],
    *leads_to: enum.Enum,
) -> Row[ResultT]: ...


@overload
def row(
    state: type[StateT],
    event: type[EventT],
    handle: Callable[Concatenate[StateT, EventT, ToolsP], ResultT],
    *leads_to: type[object],
) -> Row[ResultT]: ...


def row(state: object, event: type[Any], handle: Callable[..., ResultT], *leads_to: object) -> Row[ResultT]:
    """Create a row of a table."""
    return Row(state, event, handle, frozenset(leads_to))


Table = Mapping[tuple[object, type[Any]], Row[ResultT]]
"""Rows by state and event."""


def table(rows: Iterable[Row[ResultT]]) -> Table[ResultT]:
    """Build a table from rows.

    Raises:
        ValueError: a pair of state and event has two rows.
    """
    rows_by_pair: dict[tuple[object, type[Any]], Row[ResultT]] = {}
    for each in rows:
        if rows_by_pair.setdefault((each.state, each.event), each) is not each:
            msg = f"two rows for {each.state} and {each.event.__name__}"
            raise ValueError(msg)
    return rows_by_pair


def find_row(table: Table[ResultT], state: object, event: type[Any], where: Callable[[], str]) -> Row[ResultT]:
    """The row of an event in a state, as in the keys of the table.

    ``where`` returns the machine and its state in words, for the error; called only on an error, because a burst has
    thousands of steps.

    Raises:
        IllegalEvent: there is no such row.
    """
    matched = table.get((state, event))
    if matched is None:
        msg = f"{where()}: {event.__name__} cannot happen here"
        raise IllegalEvent(msg)
    return matched
