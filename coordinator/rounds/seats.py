"""The seats of a round: the selected devices and what became of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

import msgspec

from nightjar.wire.messages import DropoutCause


class SeatState(enum.Enum):
    """What became of a selected device."""

    WORKING = "working"
    REPORTED = "reported"
    REFUSED = "refused"
    DROPPED = "dropped"
    # Of buffered rounds only:
    EARLY = "early"
    """Reported while the round was averaging: counts in the next round."""
    STALE = "stale"
    """Reported from a base version that is too old to count."""
    CARRIED = "carried"
    """Went on to the next round together with its report, if there was one."""


AWAITED = frozenset({SeatState.WORKING, SeatState.DROPPED})
"""A device that dropped out may still report."""


class SeatGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What the seat of a buffered round was given with; the seat may outlive the round.

    Attributes:
        round: number of the round; with device and attempt, the idempotency key of the report.
        version: base version of the device's work.
        deadline_s: when the device must have reported.
        staleness: number of versions published since the base version.
    """

    round: int
    version: int
    deadline_s: float
    staleness: int = 0


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A selected device.

    Attributes:
        attempt: counts from 1; together with round and device, the idempotency key of the report.
        lost_since_s: when its connection was lost; None while it is connected.
        code: error code of its refused report.
        earlier: causes of the dropouts of its earlier attempts in this round.
        given: None in a synchronous round, whose seats end with it.
    """

    attempt: int = 1
    state: SeatState = SeatState.WORKING
    lost_since_s: float | None = None
    cause: DropoutCause | None = None
    code: str = ""
    earlier: tuple[DropoutCause, ...] = ()
    given: SeatGrant | None = None


def newcomer(seat: Seat | None, given: SeatGrant | None = None) -> Seat:
    """The seat of a device that comes, or comes back for another attempt if it had a seat."""
    if seat is None:
        return Seat(given=given)
    earlier = (*seat.earlier, seat.cause) if seat.cause is not None else seat.earlier
    return Seat(attempt=seat.attempt + 1, earlier=earlier, given=given)


def staleness_of(seat: Seat) -> int:
    """Number of versions published since the base version of a seat's work."""
    return 0 if seat.given is None else seat.given.staleness


def causes_of(seats: Iterable[Seat]) -> Counter[DropoutCause]:
    """Number of dropouts of these seats by cause, including earlier attempts."""
    causes: Counter[DropoutCause] = Counter()
    for seat in seats:
        if seat.earlier:
            causes.update(seat.earlier)
        if seat.cause is not None:
            causes[seat.cause] += 1
    return causes
