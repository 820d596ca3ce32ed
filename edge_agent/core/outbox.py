"""The outbox as a state machine: sends a report, and resends it until there is a receipt.

Theory of operation
===================

There is at most one report at a time. Its bytes are stored before the first byte is sent, and deleted once there is a
receipt, whatever its verdict: no report is worth sending twice. This machine only decides what to send when::

    PENDING --(due)--> SENT --(receipt)--> DELIVERED

A PUBACK is not a receipt: brokers drop queued messages and still report success. So a report without a receipt is
resent with the same bytes after a back-off, for ever. A chunked report is not resent blindly: a query asks which parts
are missing, and only those are sent.

``step`` works like the one in :mod:`nightjar.edge_agent.core.lifecycle`. Times are on a clock that may restart with
each process; after a restart the report is PENDING again and is sent at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nightjar.edge_agent.core.events import Moment
from nightjar.wire.backoff import BackOff
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.messages import Missing, Receipt


def _rows() -> Iterable[Row[Result]]:
    """All legal pairs of state and event; any other pair raises IllegalEvent."""
    return (
        row(Pending, TimePassed, _send_all, Sent),
        row(Pending, Nudged, _stay, Pending),
        row(Pending, ReceiptCame, _apply_receipt, Pending, Delivered),
        row(Pending, MissingCame, _stay, Pending),
        row(Sent, TimePassed, _send_again, Sent),
        row(Sent, Nudged, _hasten, Sent),
        row(Sent, ReceiptCame, _apply_receipt, Sent, Delivered),
        row(Sent, MissingCame, _send_missing, Sent),
    )


SEND_AGAIN = BackOff(first_s=5.0, most_s=300.0)
"""Back-off for resends. A receipt usually comes within a second; five leave room for a burst of a whole cohort."""
NUDGE_SPREAD_S = 2.0
"""When the connection or the coordinator is back, the report is resent within this time."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Identifies the report in the outbox.

    Attributes:
        parts: number of MQTT publishes of the report; 1 means that it is not chunked.
    """

    round: int
    attempt: int
    parts: int


@dataclass(frozen=True, slots=True)
class Pending:
    """The report has not been sent by this process yet."""

    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Sent:
    """The report was sent or queried ``tries`` times; the next try is at ``again_at_s``."""

    parcel: Parcel
    tries: int
    again_at_s: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receipt has arrived."""

    parcel: Parcel
    receipt: Receipt


State = Pending | Sent | Delivered


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed, and we are connected and could send."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Nudged:
    """The connection or the coordinator came back: a receipt may have been lost."""

    at: Moment


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    """The coordinator's answer to a report, perhaps an older one, arrived."""

    at: Moment
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class MissingCame:
    """The coordinator's answer to a query arrived."""

    at: Moment
    missing: Missing


Event = TimePassed | Nudged | ReceiptCame | MissingCame


@dataclass(frozen=True, slots=True)
class SendParts:
    """Publish these parts of the report, numbered from 0."""

    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendQuery:
    """Ask which parts of the report the coordinator has."""

    parcel: Parcel


Effect = SendParts | SendQuery
Result = tuple[State, tuple[Effect, ...]]


def due_at_s(state: State) -> float | None:
    """When the next message is to be sent, given a connection; None if there is none."""
    match state:
        case Pending():
            return -math.inf
        case Sent(_, _, again_at_s):
            return again_at_s
        case Delivered():
            return None


def step(state: State, event: Event) -> Result:
    """Make one transition.

    >>> step(Pending(Parcel(3, 1, 2)), TimePassed(Moment(10.0, 0.0)))
    (Sent(parcel=Parcel(round=3, attempt=1, parts=2), tries=1, again_at_s=12.5), (SendParts(parts=(0, 1)),))

    Raises:
        IllegalEvent: the table has no such row.
    """
    matched = find_row(TABLE, type(state), type(event), lambda: f"outbox, {type(state).__name__.lower()}")
    return matched.handle(state, event)


def _stay(state: State, _event: Event) -> Result:
    return state, ()


def _send_all(state: Pending, event: TimePassed) -> Result:
    return _sent(state.parcel, 1, event.at), (SendParts(tuple(range(state.parcel.parts))),)


def _sent(parcel: Parcel, tries: int, at: Moment) -> Sent:
    return Sent(parcel, tries, at.now_s + SEND_AGAIN.delay_s(tries, at.jitter))


def _send_again(state: Sent, event: TimePassed) -> Result:
    if event.at.now_s < state.again_at_s:
        return state, ()
    parcel = state.parcel
    again: Effect = SendParts((0,)) if parcel.parts == 1 else SendQuery(parcel)
    return _sent(parcel, state.tries + 1, event.at), (again,)


def _hasten(state: Sent, event: Nudged) -> Result:
    soon_s = event.at.now_s + NUDGE_SPREAD_S * event.at.jitter
    return Sent(state.parcel, 1, min(state.again_at_s, soon_s)), ()


def _apply_receipt(state: Pending | Sent, event: ReceiptCame) -> Result:
    receipt = event.receipt
    if (receipt.round, receipt.attempt) != (state.parcel.round, state.parcel.attempt):
        return state, ()
    return Delivered(state.parcel, receipt), ()


def _send_missing(state: Sent, event: MissingCame) -> Result:
    missing = event.missing
    if (missing.round, missing.attempt) != (state.parcel.round, state.parcel.attempt):
        return state, ()
    parts = tuple(sorted({part for part in missing.chunks if part < state.parcel.parts}))
    return _sent(state.parcel, 1, event.at), (SendParts(parts),) if parts else ()


TABLE = table(_rows())
