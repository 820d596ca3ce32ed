"""The one shape of every state machine in Nightjar: a table of rows.

A machine is a dict ``(state, event type) -> Row``. A row is a function ``(state, event) -> (next state, effects)`` and
the states that it may lead to, which the tests hold it to and the diagrams in ``docs/round.md`` are drawn from. A pair
without a row cannot happen: :class:`IllegalEvent`, and since nothing is ever modified in place the caller's state
stands.

Source: python-hyper/h11, where the table is the whole protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wire.errors import IllegalEvent


@dataclass(frozen=True, slots=True)
class Row:
    """What happens on an event in a state.

    Attributes:
        handle: (state, event) -> (next state, effects).
        leads_to: the states that the next one may be in, as in the keys of the table.
    """

    # A dict of callables cannot say that each takes the state and event of its key; the tests call every row.
    handle: Callable[[Any, Any], Any]
    leads_to: frozenset[object]


def row(handle: Callable[[Any, Any], Any], *leads_to: object) -> Row:
    """A row, in one line of the table."""
    return Row(handle, frozenset(leads_to))


def find_row(table: Mapping[tuple[Any, type[Any]], Row], state: object, event: object, where: Callable[[], str]) -> Row:
    """The row of an event.

    Args:
        table: of the machine.
        state: where the machine is, as in the keys of the table.
        event: what happened.
        where: says machine and state in words, for the error; not asked for each of a burst's thousands of steps.

    Raises:
        IllegalEvent: there is no such row.
    """
    found = table.get((state, type(event)))
    if found is None:
        msg = f"{where()}: {type(event).__name__} cannot happen here"
        raise IllegalEvent(msg)
    return found
