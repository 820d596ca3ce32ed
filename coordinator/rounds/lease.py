"""A device's lease: what the coordinator knows about the device, as a small state machine.

Theory of operation
===================

A lease is AWAY, PRESENT or READY::

    step(lease, event) -> lease

A device is READY from its check-in until its status says that it is doing something else, or its connection is lost. A
lease may be out of date: a device can disappear without notice, so a round relies on its own deadlines and never on
leases. A pair (presence, event) that is not in TABLE raises IllegalEvent and changes nothing.

Unusable reports count against a device. After :data:`REFUSALS_ALLOWED` of them the device is *barred*: it is not
selected for :data:`BARRED_S`, and the count restarts. A valid report does not lower the count; otherwise every second
report could be bad.

A lease also records the rounds that accepted a report of the device, for the limits on taking part: one bit for each of
the last :data:`SHARE_WINDOW` rounds. :mod:`nightjar.coordinator.rounds.selection` decides which devices may wait for a
round.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from nightjar.coordinator.rounds.week import noted
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.messages import CheckIn, Status


def _rows() -> Iterable[Row[Lease]]:
    """The legal (presence, event) pairs. Heard precedes ReportCounted, so an AWAY device never gets ReportCounted."""
    return (
        row(Presence.AWAY, Heard, _arrive, Presence.PRESENT),
        row(Presence.AWAY, CheckInCame, _check_in, Presence.READY),
        row(Presence.AWAY, StatusCame, _take_status, Presence.PRESENT),
        row(Presence.AWAY, WentAway, _leave, Presence.AWAY),
        row(Presence.AWAY, ReportRefused, _refuse, Presence.AWAY),
        row(Presence.AWAY, BlockingChanged, _block, Presence.AWAY),
        row(Presence.AWAY, LabelsChanged, _label, Presence.AWAY),
        row(Presence.PRESENT, Heard, _touch, Presence.PRESENT),
        row(Presence.PRESENT, CheckInCame, _check_in, Presence.READY),
        row(Presence.PRESENT, StatusCame, _take_status, Presence.PRESENT),
        row(Presence.PRESENT, WentAway, _leave, Presence.AWAY),
        row(Presence.PRESENT, ReportCounted, _count, Presence.PRESENT),
        row(Presence.PRESENT, ReportRefused, _refuse, Presence.PRESENT),
        row(Presence.PRESENT, BlockingChanged, _block, Presence.PRESENT),
        row(Presence.PRESENT, LabelsChanged, _label, Presence.PRESENT),
        row(Presence.READY, Heard, _touch, Presence.READY),
        row(Presence.READY, CheckInCame, _check_in, Presence.READY),
        row(Presence.READY, StatusCame, _take_status, Presence.READY, Presence.PRESENT),
        row(Presence.READY, WentAway, _leave, Presence.AWAY),
        row(Presence.READY, ReportCounted, _count, Presence.PRESENT),
        row(Presence.READY, ReportRefused, _refuse, Presence.READY),
        row(Presence.READY, BlockingChanged, _block, Presence.READY),
        row(Presence.READY, LabelsChanged, _label, Presence.READY),
    )


SHARE_WINDOW = 50
"""Number of rounds recorded: about an evening of a fleet, and few enough bits for an integer of any database."""
REFUSALS_ALLOWED = 3
"""Unusable reports before a device is barred: a bug of ours or a bad disk causes one or two."""
Label = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,31}\Z",
        description="1 to 32 small letters, digits, '_', '.', '-', of which the first is a letter or digit",
    ),
]
"""A word that operators give to devices, such as ``kitchen``."""
MOST_LABELS = 16
"""Labels of one device."""
BARRED_S = 86400.0
"""How long a device is barred: long enough that a device that sends only bad reports costs three seats a day."""
_WINDOW_BITS = (1 << SHARE_WINDOW) - 1
_STILL_WAITING = frozenset({"", "checked-in"})
"""Lifecycle states in a status that do not contradict a check-in."""


class Presence(enum.Enum):
    """Whether a device is connected and wants to take part, as far as is known."""

    AWAY = "away"
    """Never heard from, or disconnected."""
    PRESENT = "present"
    """Connected, but not waiting for a round."""
    READY = "ready"
    """Checked in and waiting for a round."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of a device.

    Attributes:
        state: lifecycle state that the device reported.
        reason: reason that the device gave for its state.
        last_seen_s: wall-clock time of its last sign of life.
        runtime: runtime of its last check-in.
        program: hash of the program that the device holds.
        weights: hash of the weights that the device holds.
        version: model version that the device holds, as it reported it.
        examples: number of examples that the device could train on.
        task_types: its task types, sorted, separated by spaces; after a colon why its examples cannot be used.
        codecs: the codecs that it named, sorted, separated by spaces.
        memory_bytes: its memory, as it reported it; 0 if unknown.
        last_round: the last round that accepted a report of the device; 0 if none did.
        rounds_counted: bit k is set if the k-th round before ``last_round`` accepted a report of the device.
        blocked: why an operator blocked the device; empty if it is not blocked.
        refusals: number of unusable reports since the device was last barred.
        barred_until_s: wall-clock time until which the device is barred; 0 if it never was.
        labels: labels that its claim, operators and rules gave the device, sorted, separated by spaces.
        week: how it spent its last days (:mod:`nightjar.coordinator.rounds.week`).
        taken_back: the newest agent release that the device had to roll back, and why; empty if there is none.
        notice: what the device said that its people should know though it goes on; empty if nothing.
        agent_round: ``last_round`` when it was first heard of with its agent version.
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
    version: int | None = None
    examples: int = 0
    task_types: str = "keyboard"
    codecs: str = ""
    emulated: bool = False
    memory_bytes: int = 0
    last_round: int = 0
    rounds_counted: int = 0
    blocked: str = ""
    refusals: int = 0
    barred_until_s: float = 0.0
    labels: str = ""
    week: bytes = b""
    taken_back: str = ""
    notice: str = ""
    agent_round: int = 0

    @property
    def online(self) -> bool:
        """Whether the device is connected, according to its messages and its last will."""
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


class CheckInCame(msgspec.Struct, frozen=True):
    """The device checked in and reported what it holds."""

    message: CheckIn
    now_s: float


class StatusCame(msgspec.Struct, frozen=True):
    """A status of the device arrived; a ``retained`` one may be old, so it is no sign of life."""

    message: Status
    now_s: float
    retained: bool


class WentAway(msgspec.Struct, frozen=True):
    """The device or its last will reported that it is offline; this is no sign of life."""

    message: Status
    now_s: float


class ReportCounted(msgspec.Struct, frozen=True):
    """A round accepted a report of the device."""

    round: int


class ReportRefused(msgspec.Struct, frozen=True):
    """A report of the device could not be used."""

    now_s: float


class BlockingChanged(msgspec.Struct, frozen=True):
    """An operator blocked the device for a reason, or unblocked it (empty reason)."""

    reason: str


class LabelsChanged(msgspec.Struct, frozen=True):
    """An operator or a rule gave the device these labels instead of its former ones; see :func:`joined`."""

    labels: str


Event = Heard | CheckInCame | StatusCame | WentAway | ReportCounted | ReportRefused | BlockingChanged | LabelsChanged


def step(lease: Lease, event: Event) -> Lease:
    """The lease after an event.

    >>> step(Lease(device=DeviceId("a")), Heard(5.0)).presence
    <Presence.PRESENT: 'present'>

    Raises:
        IllegalEvent: the table has no row for this event in this presence.
    """
    entry = find_row(TABLE, lease.presence, type(event), lambda: f"lease of {lease.device}, {lease.presence.value}")
    return entry.handle(lease, event)


def joined(labels: Iterable[str]) -> str:
    """Labels or task types as a lease holds them.

    >>> joined(["porch", "kitchen", "porch"])
    'kitchen porch'
    """
    return " ".join(sorted(set(labels)))


def _arrive(lease: Lease, event: Heard) -> Lease:
    week = noted(lease.week, "connected", event.now_s)
    return replace(lease, presence=Presence.PRESENT, last_seen_s=event.now_s, week=week)


def _touch(lease: Lease, event: Heard) -> Lease:
    return replace(lease, last_seen_s=event.now_s)


def _check_in(lease: Lease, event: CheckInCame) -> Lease:
    message = event.message
    return replace(
        _with_agent(lease, message.agent_version),
        presence=Presence.READY,
        last_seen_s=event.now_s,
        runtime=message.runtime,
        program=message.program,
        weights=message.weights,
        version=message.version,
        examples=message.examples,
        task_types=joined(message.task_types),
        codecs=joined(message.codecs),
        emulated=message.emulated,
        memory_bytes=message.memory_bytes,
        week=noted(lease.week, "checked-in", event.now_s),
    )


def _with_agent(lease: Lease, version: str) -> Lease:
    if version in {"", lease.agent_version}:
        return lease
    return replace(lease, agent_version=version, agent_round=lease.last_round)


def _take_status(lease: Lease, event: StatusCame) -> Lease:
    message = event.message
    waits = lease.presence is Presence.READY and message.state in _STILL_WAITING
    return replace(
        _with_agent(lease, message.agent_version),
        presence=Presence.READY if waits else Presence.PRESENT,
        state=message.state or lease.state,
        reason=message.reason,
        taken_back=message.rolled_back,
        notice=message.notice,
        emulated=message.emulated or lease.emulated,
        last_seen_s=lease.last_seen_s if event.retained else event.now_s,
        week=noted(lease.week, _doing(message), event.now_s),
    )


def _doing(message: Status) -> str:
    return (message.reason if message.state == "ineligible" else message.state) or "connected"


def _leave(lease: Lease, event: WentAway) -> Lease:
    message = event.message
    emulated = message.emulated or lease.emulated
    week = noted(lease.week, "offline", event.now_s)
    return replace(lease, presence=Presence.AWAY, state="offline", reason=message.reason, emulated=emulated, week=week)


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


def _label(lease: Lease, event: LabelsChanged) -> Lease:
    return replace(lease, labels=event.labels)


TABLE = table(_rows())
