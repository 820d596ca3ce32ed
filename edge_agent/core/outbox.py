"""The report on its way: sent, sent again, and settled by a receipt.

Theory of operation
===================

There is at most one report at a time. Its bytes, and the residual that error feedback would continue with, are stored
together before the first byte leaves; this machine decides only when to send what, and what a receipt means::

    PENDING --(due)--> SENT --(receipt)--> SETTLED

A PUBACK is not a receipt: brokers drop queued messages and say Success. So a report without a receipt is sent again
after a back-off, for ever, with the same bytes. One that was cut in chunks is not sent again blindly: a query asks what
is missing, and only that is sent.

With error feedback no update is lost by being late: what a report carried goes back into the residual, and into the
next report. An INVALID one is thrown away, and the residual is what it was before.

``step`` has the same form as in :mod:`edge_agent.core.lifecycle`. Times are on a clock that may begin anew with each
process; after a restart everything is PENDING again, which sends at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from edge_agent.core.events import Moment
from wire.backoff import BackOff
from wire.machine import Row, find_row, row, table
from wire.messages import Missing, Receipt, Verdict


def _rows() -> Iterable[Row[Result]]:
    """Every legal pair; a pair that is not here raises IllegalEvent."""
    return (
        row(Pending, TimePassed, _send_all, Sent),
        row(Pending, Nudged, _stay, Pending),
        row(Pending, ReceiptCame, _settle, Pending, Settled),
        row(Pending, MissingCame, _stay, Pending),
        row(Sent, TimePassed, _send_again, Sent),
        row(Sent, Nudged, _hasten, Sent),
        row(Sent, ReceiptCame, _settle, Sent, Settled),
        row(Sent, MissingCame, _send_missing, Sent),
    )


SEND_AGAIN = BackOff(first_s=5.0, most_s=300.0)
"""A receipt usually comes within a second; five leave room for a burst of a whole cohort."""
NUDGE_SPREAD_S = 2.0
"""When the connection or the coordinator is back, the next sending comes within this time."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Which report lies in the outbox.

    Attributes:
        round: as in the report.
        attempt: as in the report.
        parts: number of MQTT publishes that it takes; 1 means that it is not cut.
    """

    round: int
    attempt: int
    parts: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Not sent by this process yet."""

    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Sent:
    """Sent or asked about ``tries`` times; next at ``again_at_s``."""

    parcel: Parcel
    tries: int
    again_at_s: float


@dataclass(frozen=True, slots=True)
class Settled:
    """A receipt came."""

    parcel: Parcel
    receipt: Receipt


State = Pending | Sent | Settled


@dataclass(frozen=True, slots=True)
class TimePassed:
    """A moment at which we are connected and could send."""

    at: Moment


@dataclass(frozen=True, slots=True)
class Nudged:
    """The connection or the coordinator came back: a receipt may have been lost."""

    at: Moment


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    """The coordinator's answer to some report, perhaps an older one."""

    at: Moment
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class MissingCame:
    """The coordinator's answer to a query."""

    at: Moment
    missing: Missing


Event = TimePassed | Nudged | ReceiptCame | MissingCame


@dataclass(frozen=True, slots=True)
class SendParts:
    """Publish these parts of the report, numbered from 0."""

    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SendQuery:
    """Ask what the coordinator has of the report."""

    parcel: Parcel


@dataclass(frozen=True, slots=True)
class AdoptResidual:
    """Continue error feedback from the residual that was stored with the report."""


@dataclass(frozen=True, slots=True)
class PutBack:
    """Drop the report and put what it carried back into the residual: nobody will count it."""


Effect = SendParts | SendQuery | AdoptResidual | PutBack
Result = tuple[State, tuple[Effect, ...]]


def due_at_s(state: State) -> float | None:
    """When something is to be sent, if there is a connection; None if nothing is."""
    match state:
        case Pending():
            return -math.inf
        case Sent(_, _, again_at_s):
            return again_at_s
        case Settled():
            return None


def step(state: State, event: Event) -> Result:
    """One transition.

    >>> step(Pending(Parcel(3, 1, 2)), TimePassed(Moment(10.0, 0.0)))
    (Sent(parcel=Parcel(round=3, attempt=1, parts=2), tries=1, again_at_s=12.5), (SendParts(parts=(0, 1)),))

    Raises:
        IllegalEvent: the table has no such row.
    """
    found = find_row(TABLE, type(state), type(event), lambda: f"outbox, {type(state).__name__.lower()}")
    return found.handle(state, event)


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


def _settle(state: Pending | Sent, event: ReceiptCame) -> Result:
    said = event.receipt
    if (said.round, said.attempt) != (state.parcel.round, state.parcel.attempt):
        return state, ()
    match said.verdict:
        # A duplicate was accepted before; only its receipt got lost.
        case Verdict.ACCEPTED | Verdict.DUPLICATE:
            return Settled(state.parcel, said), (AdoptResidual(),)
        case Verdict.LATE:
            return Settled(state.parcel, said), (PutBack(),)
        # Whatever is wrong with it would be wrong with the next report, too, if it were kept.
        case Verdict.INVALID:
            return Settled(state.parcel, said), ()


def _send_missing(state: Sent, event: MissingCame) -> Result:
    said = event.missing
    if (said.round, said.attempt) != (state.parcel.round, state.parcel.attempt):
        return state, ()
    parts = tuple(sorted({part for part in said.chunks if part < state.parcel.parts}))
    return _sent(state.parcel, 1, event.at), (SendParts(parts),) if parts else ()


TABLE = table(_rows())
