"""What the coordinator knows of a device: a small state machine over what it heard.

Theory of operation
===================

A lease is AWAY, PRESENT or READY::

    step(lease, event) -> lease

It is READY from its check-in on, until its status says that it does something else or its connection is gone. It is a
lease and not the truth: a device may be gone without anybody having said so, therefore a round relies on its own
deadlines and never on this. A pair (presence, event) that is not in TABLE raises IllegalEvent and changes nothing.

Reports that could not be used count against a device: after :data:`REFUSALS_ALLOWED` of them it is *barred*, not
selected for :data:`BARRED_S`, and the count begins anew. A sound report takes nothing back, or every second one could
be bad.

A lease also remembers the rounds in which a report of the device was accepted, for the limits on taking part: one bit
for each of the last :data:`SHARE_WINDOW` rounds. Who may wait for a round, :mod:`coordinator.rounds.selection` says.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from wire.identifiers import DeviceId
from wire.machine import Row, find_row, row, table
from wire.messages import CheckIn, Status


def _rows() -> Iterable[Row[Lease]]:
    """Every legal pair. A report is heard before it is counted, so none is ever counted of a device that is AWAY."""
    return (
        row(Presence.AWAY, Heard, _arrive, Presence.PRESENT),
        row(Presence.AWAY, CheckedIn, _offer, Presence.READY),
        row(Presence.AWAY, StatusCame, _tell, Presence.PRESENT),
        row(Presence.AWAY, WentAway, _leave, Presence.AWAY),
        row(Presence.AWAY, ReportRefused, _refuse, Presence.AWAY),
        row(Presence.AWAY, BlockingChanged, _block, Presence.AWAY),
        row(Presence.PRESENT, Heard, _live, Presence.PRESENT),
        row(Presence.PRESENT, CheckedIn, _offer, Presence.READY),
        row(Presence.PRESENT, StatusCame, _tell, Presence.PRESENT),
        row(Presence.PRESENT, WentAway, _leave, Presence.AWAY),
        row(Presence.PRESENT, ReportCounted, _count, Presence.PRESENT),
        row(Presence.PRESENT, ReportRefused, _refuse, Presence.PRESENT),
        row(Presence.PRESENT, BlockingChanged, _block, Presence.PRESENT),
        row(Presence.READY, Heard, _live, Presence.READY),
        row(Presence.READY, CheckedIn, _offer, Presence.READY),
        row(Presence.READY, StatusCame, _tell, Presence.READY, Presence.PRESENT),
        row(Presence.READY, WentAway, _leave, Presence.AWAY),
        row(Presence.READY, ReportCounted, _count, Presence.PRESENT),
        row(Presence.READY, ReportRefused, _refuse, Presence.READY),
        row(Presence.READY, BlockingChanged, _block, Presence.READY),
    )


SHARE_WINDOW = 50
"""Rounds that are remembered: a fleet's evening, and few enough bits for any database's integer."""
REFUSALS_ALLOWED = 3
"""A fault of ours, or of a disk, makes one or two."""
BARRED_S = 86400.0
"""Long enough that a device that does nothing else costs three seats a day."""
_WINDOW_BITS = (1 << SHARE_WINDOW) - 1
_STILL_WAITING = frozenset({"", "checked-in"})
"""Lifecycle states in a status that do not contradict a check-in."""


class Presence(enum.Enum):
    """Where a device is, as far as was heard."""

    AWAY = "away"
    """Never heard of, or its connection is gone."""
    PRESENT = "present"
    """Connected, and busy with something else than waiting for us."""
    READY = "ready"
    """Checked in: it wants to take part."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One device as last heard of.

    Attributes:
        device: its id.
        presence: where it is.
        state: its lifecycle state, in its own words.
        reason: why it is in this state, in its own words.
        last_seen_s: wall-clock time of its last sign of life.
        agent_version: as in its last check-in.
        runtime: as in its last check-in.
        program: hash of the program that it holds.
        weights: hash of the weights that it holds.
        examples: messages that it could train on.
        emulated: whether it is an emulated phone.
        last_round: the last round that counts a report of it; 0 if none does.
        rounds_counted: bit k says the same of the k-th round before ``last_round``.
        blocked: why an operator shut it out; empty if nobody did.
        refusals: its reports that could not be used, since it was last barred.
        barred_until_s: until when it is not selected because of them; 0 if it never was barred.
        taken_back: the newest release of the agent that did not work there, with its reason; empty if there is none.
    """

    device: DeviceId
    presence: Presence = Presence.AWAY
    state: str = ""
    reason: str = ""
    last_seen_s: float = 0.0
    agent_version: str = ""
    runtime: str = ""
    program: str | None = None
    weights: str | None = None
    examples: int = 0
    emulated: bool = False
    last_round: int = 0
    rounds_counted: int = 0
    blocked: str = ""
    refusals: int = 0
    barred_until_s: float = 0.0
    taken_back: str = ""

    @property
    def online(self) -> bool:
        """Whether it is connected, as it or its last will said."""
        return self.presence is not Presence.AWAY


# Events


def counted_rounds(lease: Lease) -> list[int]:
    """Rounds that counted a report of the device, as far back as the lease goes, newest first.

    >>> counted_rounds(Lease(device=DeviceId("a"), last_round=9, rounds_counted=0b1011))
    [9, 8, 6]
    """
    return [lease.last_round - back for back in range(SHARE_WINDOW) if lease.rounds_counted >> back & 1]


class Heard(msgspec.Struct, frozen=True):
    """The device sent something."""

    now_s: float


class CheckedIn(msgspec.Struct, frozen=True):
    """The device offered itself and said what it holds."""

    message: CheckIn
    now_s: float


class StatusCame(msgspec.Struct, frozen=True):
    """The device says how it is; a ``retained`` status is an old one that the broker kept, so no sign of life."""

    message: Status
    now_s: float
    retained: bool


class WentAway(msgspec.Struct, frozen=True):
    """The device, or its last will, says that its connection is gone; no sign of life either."""

    message: Status


class ReportCounted(msgspec.Struct, frozen=True):
    """A report of the device was accepted in that round."""

    round: int


class ReportRefused(msgspec.Struct, frozen=True):
    """A report of the device could not be used."""

    now_s: float


class BlockingChanged(msgspec.Struct, frozen=True):
    """An operator shut the device out, for a reason, or lets it in again (no reason)."""

    reason: str


Event = Heard | CheckedIn | StatusCame | WentAway | ReportCounted | ReportRefused | BlockingChanged


def step(lease: Lease, event: Event) -> Lease:
    """The lease after an event.

    >>> step(Lease(device=DeviceId("a")), Heard(5.0)).presence
    <Presence.PRESENT: 'present'>

    Raises:
        IllegalEvent: the table has no row for this event in this presence.
    """
    found = find_row(TABLE, lease.presence, type(event), lambda: f"lease of {lease.device}, {lease.presence.value}")
    return found.handle(lease, event)


def status_event(message: Status, now_s: float, *, retained: bool) -> StatusCame | WentAway:
    """The event that a status is."""
    return StatusCame(message, now_s, retained) if message.online else WentAway(message)


def _arrive(lease: Lease, event: Heard) -> Lease:
    return replace(lease, presence=Presence.PRESENT, last_seen_s=event.now_s)


def _live(lease: Lease, event: Heard) -> Lease:
    return replace(lease, last_seen_s=event.now_s)


def _offer(lease: Lease, event: CheckedIn) -> Lease:
    said = event.message
    return replace(
        lease,
        presence=Presence.READY,
        last_seen_s=event.now_s,
        agent_version=said.agent_version,
        runtime=said.runtime,
        program=said.program,
        weights=said.weights,
        examples=said.examples,
        emulated=said.emulated,
    )


def _tell(lease: Lease, event: StatusCame) -> Lease:
    said = event.message
    waits = lease.presence is Presence.READY and said.state in _STILL_WAITING
    return replace(
        lease,
        presence=Presence.READY if waits else Presence.PRESENT,
        state=said.state or lease.state,
        reason=said.reason,
        taken_back=said.taken_back,
        emulated=said.emulated or lease.emulated,
        last_seen_s=lease.last_seen_s if event.retained else event.now_s,
    )


def _leave(lease: Lease, event: WentAway) -> Lease:
    said = event.message
    emulated = said.emulated or lease.emulated
    return replace(lease, presence=Presence.AWAY, state="offline", reason=said.reason, emulated=emulated)


def _count(lease: Lease, event: ReportCounted) -> Lease:
    passed = event.round - lease.last_round
    if passed < 0:  # rounds of several tasks overlap
        counted = lease.rounds_counted | (1 << -passed if -passed < SHARE_WINDOW else 0)
        return replace(lease, presence=Presence.PRESENT, rounds_counted=counted)
    earlier = (lease.rounds_counted << passed) & _WINDOW_BITS if passed < SHARE_WINDOW else 0
    return replace(lease, presence=Presence.PRESENT, last_round=event.round, rounds_counted=earlier | 1)


def _refuse(lease: Lease, event: ReportRefused) -> Lease:
    if lease.refusals + 1 < REFUSALS_ALLOWED:
        return replace(lease, refusals=lease.refusals + 1)
    return replace(lease, refusals=0, barred_until_s=event.now_s + BARRED_S)


def _block(lease: Lease, event: BlockingChanged) -> Lease:
    return replace(lease, blocked=event.reason)


TABLE = table(_rows())
