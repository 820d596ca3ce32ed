"""The one shape of every state machine in Nightjar: a table of rows.

A row names a state, an event, a function ``(state, event) -> (next state, effects)`` and the states that it may lead
to, which the tests hold it to and the diagrams in ``docs/round.md`` are drawn from. A pair without a row cannot happen:
:class:`IllegalEvent`, and since nothing is ever modified in place the caller's state stands.

A machine's rows are the first code of its module, in a function, because they name what follows; mypy checks that each
function takes the event of its row, and the state where states are types, and that all give the same kind of result.

Source: python-hyper/h11, where the table is the whole protocol.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from wire.errors import IllegalEvent

StateT = TypeVar("StateT")
EventT = TypeVar("EventT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Row(Generic[ResultT]):
    """What happens on an event in a state.

    Attributes:
        state: where the machine is: a member of an enumeration, or the type of a state.
        event: type of what happened.
        handle: (state, event) -> the step's result.
        leads_to: the states that the next one may be in.
    """

    state: object
    event: type[Any]
    handle: Callable[[Any, Any], ResultT]
    leads_to: frozenset[object]


@overload
def row(
    state: enum.Enum, event: type[EventT], handle: Callable[[StateT, EventT], ResultT], *leads_to: enum.Enum
) -> Row[ResultT]: ...


@overload
def row(
    state: type[StateT], event: type[EventT], handle: Callable[[StateT, EventT], ResultT], *leads_to: type[object]
) -> Row[ResultT]: ...


def row(state: object, event: type[Any], handle: Callable[[Any, Any], ResultT], *leads_to: object) -> Row[ResultT]:
    """A row, in one line of the table."""
    return Row(state, event, handle, frozenset(leads_to))


Table = Mapping[tuple[object, type[Any]], Row[ResultT]]
"""Rows by state and event."""


def table(rows: Iterable[Row[ResultT]]) -> Table[ResultT]:
    """The table of these rows.

    Raises:
        ValueError: a pair has two.
    """
    found: dict[tuple[object, type[Any]], Row[ResultT]] = {}
    for each in rows:
        if found.setdefault((each.state, each.event), each) is not each:
            msg = f"two rows for {each.state} and {each.event.__name__}"
            raise ValueError(msg)
    return found


def find_row(table: Table[ResultT], state: object, event: type[Any], where: Callable[[], str]) -> Row[ResultT]:
    """The row of an event.

    Args:
        table: of the machine.
        state: where the machine is, as in the keys of the table.
        event: type of what happened.
        where: says machine and state in words, for the error; not asked for each of a burst's thousands of steps.

    Raises:
        IllegalEvent: there is no such row.
    """
    found = table.get((state, event))
    if found is None:
        msg = f"{where()}: {event.__name__} cannot happen here"
        raise IllegalEvent(msg)
    return found
