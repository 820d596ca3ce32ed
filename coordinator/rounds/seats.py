"""The seats of a round: the selected devices and what became of them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from wire.identifiers import DeviceId
from wire.messages import DropoutCause


class SeatState(enum.Enum):
    """What became of a selected device."""

    WORKING = "working"
    REPORTED = "reported"
    REFUSED = "refused"
    DROPPED = "dropped"


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A selected device.

    Attributes:
        attempt: counts from 1; together with round and device, the idempotency key of the report.
        state: what became of the device.
        lost_since_s: when its connection was lost; None while it is connected.
        cause: why the device dropped out.
        code: error code of its refused report.
        earlier: causes of the dropouts of its earlier attempts in this round.
    """

    attempt: int = 1
    state: SeatState = SeatState.WORKING
    lost_since_s: float | None = None
    cause: DropoutCause | None = None
    code: str = ""
    earlier: tuple[DropoutCause, ...] = ()


def with_seat(seats: Mapping[DeviceId, Seat], device: DeviceId, seat: Seat) -> dict[DeviceId, Seat]:
    """The seats with one added or replaced."""
    return {**seats, device: seat}


def causes_of(seats: Iterable[Seat]) -> Counter[DropoutCause]:
    """Number of dropouts of these seats by cause, including earlier attempts."""
    causes: Counter[DropoutCause] = Counter()
    for seat in seats:
        if seat.earlier:
            causes.update(seat.earlier)
        if seat.cause is not None:
            causes[seat.cause] += 1
    return causes
