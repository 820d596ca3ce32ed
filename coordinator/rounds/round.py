"""The state of a round: its phase, its seats and its deadlines, and what is read from them. Pure.

:mod:`nightjar.coordinator.rounds.synchronous` and :mod:`nightjar.coordinator.rounds.buffer` are the state machines that
change it.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import AWAITED, Seat, SeatState, causes_of
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause

STALE = "stale"
"""Code of the LATE receipt of a report whose base version is too old."""
MAX_ATTEMPTS = 3
"""Maximum attempts of one device per round: a device that keeps failing must not keep others out."""


class Phase(enum.Enum):
    """The phase of a round."""

    SELECTION = "selection"
    REPORTING = "reporting"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABANDONED = "abandoned"


TERMINAL = frozenset({Phase.COMMITTED, Phase.ABANDONED})


class AbandonCause(enum.Enum):
    """Why a round was abandoned, as a category for metrics; the round's ``reason`` has the words."""

    NOBODY_CAME = "nobody-came"
    TOO_FEW_DEVICES = "too-few-devices"
    TOO_FEW_REPORTS = "too-few-reports"
    AVERAGING_FAILED = "averaging-failed"
    CALLED_OFF = "called-off"
    """The task stopped wanting a round, for example because it was paused, and too few devices were at work."""
    RESTORED = "restored"
    """A placeholder for a round number that may have been used after the restored backup was made."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state of a round. Times are seconds of the coordinator's wall clock.

    Attributes:
        number: counts from 1, over all tasks.
        base_version: the model version that the devices train or evaluate.
        trial: whether the base version is a canary that the devices only evaluate.
        deadline_s: deadline of the present phase.
        pool: in SELECTION, the waiting devices in order of arrival; in REPORTING, the reserve.
        working: number of selected devices still working; kept up to date, so that a report needs no pass over seats.
        reported: number of selected devices that have reported; kept up to date like ``working``.
        started_at_s: when REPORTING began.
        closed_at_s: when the round became terminal.
        empty_before: number of consecutive rounds just before this one in which no device checked in.
        cause: why the round was abandoned, as a category for metrics.
        reason: why the round was abandoned, in words.
        version: the version that the round committed; None for a round that only evaluated one.
        closing: why a buffered round gives no more seats; empty if it does.
        following: number of the buffered round that took over its open seats; None if there was none.
        left_out: devices whose reports are not used (:mod:`nightjar.coordinator.rounds.cohorts`).
        without_figures: whether only the updates of its reports are used, not what the devices measured.
    """

    number: int
    task: str = ""
    trial: bool = False
    base_version: int
    rules: RoundRules
    seed: int
    opened_at_s: float
    deadline_s: float
    phase: Phase = Phase.SELECTION
    pool: tuple[DeviceId, ...] = ()
    seats: Mapping[DeviceId, Seat] = msgspec.field(default_factory=dict)
    working: int = 0
    reported: int = 0
    started_at_s: float | None = None
    closed_at_s: float | None = None
    empty_before: int = 0
    cause: AbandonCause | None = None
    reason: str = ""
    version: int | None = None
    closing: str = ""
    following: int | None = None
    left_out: tuple[DeviceId, ...] = ()
    without_figures: bool = False

    def devices(self, state: SeatState) -> list[DeviceId]:
        """The selected devices in this state, in ascending order."""
        return sorted(device for device, seat in self.seats.items() if seat.state is state)

    def explain(self, elsewhere: str = "") -> str:
        """What the round is waiting for, or why it was abandoned, in words.

        In SELECTION ``elsewhere`` adds what the devices outside the pool are doing.
        """
        match self.phase:
            case Phase.SELECTION:
                many, rules = len(self.pool), self.rules
                here = f"waiting: {many} of {rules.minimum} phones eligible"
                if many >= rules.minimum:
                    here = f"waiting: {_phones(many)} eligible, enough to begin; {rules.cohort} wanted"
                return f"{here}; {elsewhere}" if elsewhere else here
            case Phase.REPORTING:
                return f"waiting: {self.reported} of {self.rules.goal} reports, {_phones(self.working)} at work"
            case Phase.COMMITTING:
                return f"averaging {self.reported} reports"
            case Phase.COMMITTED | Phase.ABANDONED:
                return self.reason


def _phones(count: int) -> str:
    return f"{count} phone{'' if count == 1 else 's'}"


def open_round(
    number: int,
    base_version: int,
    rules: RoundRules,
    seed: int,
    now_s: float,
    empty_before: int = 0,
    task: str = "",
    *,
    trial: bool = False,
) -> Round:
    """A new round, at the start of SELECTION."""
    return Round(
        number=number,
        task=task,
        trial=trial,
        base_version=base_version,
        rules=rules,
        seed=seed,
        opened_at_s=now_s,
        deadline_s=now_s + rules.empty_selection_s(empty_before),
        empty_before=empty_before,
    )


def dropouts(state: Round) -> Counter[DropoutCause]:
    """Number of dropouts by cause, including earlier attempts."""
    return causes_of(state.seats.values())


def awaits_report(state: Round, device: DeviceId, attempt: int, _given: int = 0) -> bool:
    """Whether a valid report of this device and attempt would be accepted now.

    Only such a report is worth decoding; step() decides the verdict on any other without its content.
    """
    seat = state.seats.get(device)
    return state.phase is Phase.REPORTING and seat is not None and seat.attempt == attempt and seat.state in AWAITED


def has_room(state: Round, device: DeviceId, now_s: float) -> bool:
    """Whether a round in REPORTING would give this device a free seat, or its own seat again."""
    if state.phase is not Phase.REPORTING or now_s >= state.rules.replacement_ends_s(state.deadline_s):
        return False
    if state.working + state.reported >= state.rules.cohort:
        return False
    seat = state.seats.get(device)
    return seat is None or (seat.state is SeatState.DROPPED and seat.attempt < MAX_ATTEMPTS)


def is_lost(state: Round, seat: Seat, now_s: float) -> bool:
    """Whether a device has been disconnected for longer than the grace period."""
    return seat.lost_since_s is not None and now_s >= seat.lost_since_s + state.rules.lost_grace_s


def seat_version(state: Round, seat: Seat) -> int:
    """The base version of a seat's work."""
    return state.base_version if seat.given is None else seat.given.version


def seat_deadline_s(state: Round, seat: Seat) -> float:
    """When a selected device must have reported."""
    return state.deadline_s if seat.given is None else seat.given.deadline_s


def seat_round(state: Round, seat: Seat) -> int:
    """Number of the round that a seat was given in, which the device's report names."""
    return state.number if seat.given is None else seat.given.round


def is_named(state: Round, seat: Seat, attempt: int, given: int) -> bool:
    """Whether a report of this attempt that names round ``given`` (0: this one) is one of this seat."""
    return (seat_round(state, seat), seat.attempt) == (given or state.number, attempt)


def seated(state: Round, device: DeviceId, seat: Seat) -> Round:
    """The round with one seat added or replaced."""
    before = state.seats.get(device)
    was = None if before is None else before.state
    return replace(
        state,
        seats={**state.seats, device: seat},
        working=state.working + (seat.state is SeatState.WORKING) - (was is SeatState.WORKING),
        reported=state.reported + (seat.state is SeatState.REPORTED) - (was is SeatState.REPORTED),
    )


def reseated(state: Round, seats: Mapping[DeviceId, Seat]) -> Round:
    """The round with these seats instead of its own."""
    states = Counter(seat.state for seat in seats.values())
    return replace(state, seats=seats, working=states[SeatState.WORKING], reported=states[SeatState.REPORTED])


def dropped(seat: Seat, cause: DropoutCause) -> Seat:
    """The seat of a device that dropped out."""
    return replace(seat, state=SeatState.DROPPED, cause=cause, lost_since_s=None)


def out_of_time(seat: Seat) -> Seat:
    """The seat after its time is over: a device that is still working has dropped out."""
    if seat.state is not SeatState.WORKING:
        return seat
    return dropped(seat, DropoutCause.SILENT if seat.lost_since_s is None else DropoutCause.CONNECTION_LOST)


def abandoned(state: Round, cause: AbandonCause, reason: str, now_s: float) -> Round:
    """The round, ended without a version."""
    return replace(state, phase=Phase.ABANDONED, cause=cause, reason=reason, closed_at_s=now_s)
