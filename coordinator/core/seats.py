"""The seats of a round: who was selected, and what became of them.

A round of five thousand devices takes five thousand reports, each of which changes one seat. Copying all seats for each
was a tenth of what a report costs the coordinator. So a changed mapping shares what stays as it is with the one before:
a large dictionary that nobody changes any more, and a small one on top that is copied instead.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView

import msgspec

from wire.identifiers import DeviceId
from wire.messages import DropoutCause

MOST_ON_TOP = 64
"""Changed seats in the small dictionary; one more, and both become a new large one."""


class SeatState(enum.Enum):
    """What became of a selected device."""

    WORKING = "working"
    REPORTED = "reported"
    REFUSED = "refused"
    DROPPED = "dropped"


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A selected device.

    Attributes:
        attempt: from 1; with round and device the idempotency key of the report.
        state: what became of it.
        lost_since_s: when its connection was lost, while it is lost.
        cause: why it dropped.
        code: why its report was refused.
        earlier: causes of its earlier attempts in this round.
    """

    attempt: int = 1
    state: SeatState = SeatState.WORKING
    lost_since_s: float | None = None
    cause: DropoutCause | None = None
    code: str = ""
    earlier: tuple[DropoutCause, ...] = ()


class Seats(Mapping[DeviceId, Seat]):
    """Seats by device, in the order in which they were given; see :func:`with_seat`.

    Args:
        base: the large dictionary.
        top: what is different.
    """

    __slots__ = ("_base", "_top")

    def __init__(self, base: Mapping[DeviceId, Seat], top: dict[DeviceId, Seat]) -> None:
        self._base, self._top = base, top

    def replaced(self, device: DeviceId, seat: Seat) -> Seats:
        """The same but for one seat."""
        if len(self._top) < MOST_ON_TOP:
            return Seats(self._base, {**self._top, device: seat})
        return Seats(self.plain(), {device: seat})

    def plain(self) -> dict[DeviceId, Seat]:
        """A dictionary of its own; what is stored."""
        return {**self._base, **self._top}

    def get(self, device: DeviceId, default: Seat | None = None) -> Seat | None:  # type: ignore[override]
        """The seat of a device that has one."""
        seat = self._top.get(device)
        return self._base.get(device, default) if seat is None else seat

    def __getitem__(self, device: DeviceId) -> Seat:
        seat = self._top.get(device)
        return self._base[device] if seat is None else seat

    def __contains__(self, device: object) -> bool:
        return device in self._base or device in self._top

    def __iter__(self) -> Iterator[DeviceId]:
        return iter(self.plain())

    def __len__(self) -> int:
        return len(self._base) + sum(device not in self._base for device in self._top)

    def __eq__(self, other: object) -> bool:
        return self.plain() == (other.plain() if isinstance(other, Seats) else other)

    def items(self) -> ItemsView[DeviceId, Seat]:
        """Devices and their seats."""
        return self.plain().items()

    def values(self) -> ValuesView[Seat]:
        """The seats."""
        return self.plain().values()


def with_seat(seats: Mapping[DeviceId, Seat], device: DeviceId, seat: Seat) -> Seats:
    """These seats with one given or changed; ``seats`` itself must not be changed by anybody any more."""
    return seats.replaced(device, seat) if isinstance(seats, Seats) else Seats(seats, {device: seat})


def causes_of(seats: Iterable[Seat]) -> Counter[DropoutCause]:
    """Dropouts of these seats by cause, those of earlier attempts included."""
    causes: Counter[DropoutCause] = Counter()
    for seat in seats:
        if seat.earlier:
            causes.update(seat.earlier)
        if seat.cause is not None:
            causes[seat.cause] += 1
    return causes
