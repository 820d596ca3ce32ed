"""A buffered round: the state machine of a round that does not wait for its devices, without I/O.

Theory of operation
===================

The round is a *buffer*: as soon as it holds ``goal`` reports, it makes a version, and the next one opens. It has no
selection. It opens in REPORTING, and each device that checks in gets a seat while fewer than ``concurrency`` devices
are at work. A seat says what it was given with (:class:`~nightjar.coordinator.rounds.seats.SeatGrant`): the round, the
base version and a deadline of its own. It goes on to the next round with its device, so that a device selected in round
7 may report into round 9; the report still names round 7, and so does its receipt. What ends with the round is only
what it used: its reports, refusals and dropouts. A device counts at most once per buffer.

A seat's *staleness* grows by one with each version that is published. A report with more than ``max_staleness`` is
answered LATE with the code ``stale``; otherwise its update is scaled (:mod:`nightjar.coordinator.learning.staleness`).

In COMMITTING the round goes on giving seats and taking reports. These are EARLY: they are accepted, and count in the
next buffer, which may then open with more than ``goal`` reports.

A round that is called off (:attr:`~nightjar.coordinator.rounds.round.Round.closing`) gives no more seats. When no
device is at work any more, it makes a version of at least the minimum of reports or is ABANDONED.

:func:`step` is as in :mod:`nightjar.coordinator.rounds.synchronous`; :func:`carry` hands the seats over.

Source: Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation", algorithm 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    AggregationFinished,
    AssignDevice,
    CalledOff,
    ClockTicked,
    DeviceCheckedIn,
    DeviceDroppedOut,
    DeviceLost,
    DeviceReturned,
    Effect,
    Event,
    RejectCheckIn,
    ReportReceived,
    ReportsUnreadable,
)
from nightjar.coordinator.rounds.round import (
    MAX_ATTEMPTS,
    AbandonCause,
    Phase,
    Round,
    abandoned,
    dropped,
    is_lost,
    is_named,
    out_of_time,
    reseated,
    seat_round,
    seated,
)
from nightjar.coordinator.rounds.seats import AWAITED, Seat, SeatGrant, SeatState, newcomer, staleness_of
from nightjar.coordinator.rounds.synchronous import (
    Step,
    answer,
    begin_commit,
    end_grace,
    fail,
    finish,
    record_report,
    refuse,
    stale_receipt,
    start_grace,
    watch_committing,
)
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.messages import DropoutCause, RejectionReason


def _rows() -> Iterable[Row[Step]]:
    """The legal (phase, event) pairs; any other pair raises IllegalEvent."""
    return (
        row(Phase.REPORTING, DeviceCheckedIn, _give_seat, Phase.REPORTING),
        row(Phase.REPORTING, DeviceLost, start_grace, Phase.REPORTING),
        row(Phase.REPORTING, DeviceReturned, end_grace, Phase.REPORTING),
        row(Phase.REPORTING, DeviceDroppedOut, _drop, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, ReportReceived, _take_report, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, ClockTicked, _watch, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, CalledOff, _close, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, AggregationFailed, fail, Phase.ABANDONED),
        row(Phase.COMMITTING, DeviceCheckedIn, _give_seat, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceLost, start_grace, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceReturned, end_grace, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceDroppedOut, _drop, Phase.COMMITTING),
        row(Phase.COMMITTING, ReportReceived, _take_report, Phase.COMMITTING),
        row(Phase.COMMITTING, ClockTicked, _watch, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.COMMITTING, AggregationFinished, finish, Phase.COMMITTED),
        row(Phase.COMMITTING, AggregationFailed, fail, Phase.ABANDONED),
        row(Phase.COMMITTING, ReportsUnreadable, _reopen, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.COMMITTING, CalledOff, _close, Phase.COMMITTING),
        row(Phase.COMMITTED, ReportReceived, answer, Phase.COMMITTED),
        row(Phase.ABANDONED, ReportReceived, answer, Phase.ABANDONED),
    )


_OPEN = frozenset({Phase.REPORTING, Phase.COMMITTING})


def step(state: Round, event: Event) -> Step:
    """The round after an event, and the effects of it; as :func:`nightjar.coordinator.rounds.synchronous.step`.

    Raises:
        IllegalEvent: the table has no row for this event in this phase.
    """
    found = find_row(TABLE, state.phase, type(event), lambda: f"buffered round {state.number}, {state.phase.value}")
    return found.handle(state, event)


def opened(state: Round, now_s: float, closing: str = "") -> Round:
    """A new round as a buffer: it opens in REPORTING.

    ``closing`` says why it gives no seats and only takes the reports of the seats that are carried over; empty if it
    gives them.
    """
    deadline_s = now_s + state.rules.report_deadline_s
    return replace(state, phase=Phase.REPORTING, started_at_s=now_s, deadline_s=deadline_s, closing=closing)


def carry(
    ended: Round, following: Round, *, only_early: bool = False, withdrawn: Collection[int] = ()
) -> tuple[Round, Round, list[DeviceId]]:
    """Hand the seats of devices at work, and of early reports, over to the next buffer.

    So are the seats of devices whose connection was lost: they may come back with a report.

    With ``only_early`` only the early reports go on, because the other devices were told that the round has ended. What
    was trained from ``withdrawn`` base versions, which were rolled back, does not go on.

    Returns:
        Both rounds, and the devices whose seats were handed over.
    """
    published = ended.base_version != following.base_version
    seats: dict[DeviceId, Seat] = {}
    for device, seat in ended.seats.items():
        if seat.given is None or seat.given.version in withdrawn or not _goes_on(seat, only_early=only_early):
            continue
        given = replace(seat.given, staleness=seat.given.staleness + published)
        if seat.state is SeatState.DROPPED and given.staleness > ended.rules.max_staleness:
            continue
        now = SeatState.REPORTED if seat.state is SeatState.EARLY else seat.state
        seats[device] = replace(seat, state=now, cause=None, earlier=(), given=given)
    left = {device: replace(ended.seats[device], state=SeatState.CARRIED) for device in seats}
    before = reseated(ended, {**ended.seats, **left})
    return replace(before, following=following.number), reseated(following, seats), sorted(seats)


def _goes_on(seat: Seat, *, only_early: bool) -> bool:
    if only_early or seat.state is SeatState.EARLY:
        return seat.state is SeatState.EARLY
    lost = seat.state is SeatState.DROPPED and seat.cause in {None, DropoutCause.CONNECTION_LOST}
    return lost or seat.state is SeatState.WORKING


def awaits_report(state: Round, device: DeviceId, attempt: int, given: int) -> bool:
    """Whether a valid report of this seat would be accepted now; as in :mod:`nightjar.coordinator.rounds.round`."""
    seat = state.seats.get(device)
    return seat is not None and _is_awaited(state, seat, attempt, given) and not _is_stale(state, seat)


def has_free_seat(state: Round) -> bool:
    """Whether the round would give a newcomer a seat."""
    return state.phase in _OPEN and not state.closing and state.working < state.rules.concurrency


def has_room(state: Round, device: DeviceId, _now_s: float) -> bool:
    """Whether the round would give this device a seat."""
    if not has_free_seat(state):
        return False
    seat = state.seats.get(device)
    if seat is None or seat.state is SeatState.STALE:
        return True
    return seat.state is SeatState.DROPPED and len(seat.earlier) + 1 < MAX_ATTEMPTS


def _is_awaited(state: Round, seat: Seat, attempt: int, given: int) -> bool:
    return is_named(state, seat, attempt, given) and state.phase in _OPEN and seat.state in AWAITED


def _is_stale(state: Round, seat: Seat) -> bool:
    """Whether a report would be too stale for its mean: the present one, or the one after it while averaging."""
    return staleness_of(seat) + (state.phase is Phase.COMMITTING) > state.rules.max_staleness


def _give_seat(state: Round, event: DeviceCheckedIn) -> Step:
    seat = state.seats.get(event.device)
    if seat is not None and seat.state is SeatState.WORKING:
        # The device does not know of its seat: the assignment was lost.
        known = seated(state, event.device, replace(seat, lost_since_s=None))
        return known, (AssignDevice(event.device, seat_round(state, seat), seat.attempt),)
    if not has_room(state, event.device, event.now_s):
        rounds = int(seat is not None)  # it has had its turn
        return state, (RejectCheckIn(event.device, RejectionReason.ROUND_IN_PROGRESS, rounds=rounds),)
    deadline_s = event.now_s + state.rules.report_deadline_s
    given = SeatGrant(round=state.number, version=state.base_version, deadline_s=deadline_s)
    fresh = newcomer(seat, given)
    after = seated(state, event.device, fresh)
    if state.phase is Phase.REPORTING:
        after = replace(after, deadline_s=deadline_s)
    return after, (AssignDevice(event.device, state.number, fresh.attempt),)


def _drop(state: Round, event: DeviceDroppedOut) -> Step:
    seat = state.seats.get(event.device)
    if seat is None or not _is_awaited(state, seat, event.attempt, event.given):
        return state, ()
    return _end_if_due(seated(state, event.device, dropped(seat, event.cause)), event.now_s)


def _take_report(state: Round, event: ReportReceived) -> Step:
    seat = state.seats.get(event.device)
    if seat is None or not _is_awaited(state, seat, event.attempt, event.given):
        return answer(state, event)
    effects: tuple[Effect, ...]
    if _is_stale(state, seat):
        stale = replace(seat, state=SeatState.STALE, cause=None, lost_since_s=None)
        recorded, effects = seated(state, event.device, stale), (stale_receipt(state, event, seat),)
    else:
        accepted = SeatState.EARLY if state.phase is Phase.COMMITTING else SeatState.REPORTED
        recorded, effects = record_report(state, event, accepted)
    ended, others = _end_if_due(recorded, event.now_s)
    return ended, effects + others


def _watch(state: Round, event: ClockTicked) -> Step:
    longest_s = event.now_s + state.rules.report_deadline_s
    changed = {}
    for device, seat in state.seats.items():
        if seat.state is not SeatState.WORKING or seat.given is None:
            continue
        if is_lost(state, seat, event.now_s) or event.now_s >= seat.given.deadline_s:
            changed[device] = out_of_time(seat)
        elif seat.given.deadline_s > longest_s:  # the clock was set back
            changed[device] = replace(seat, given=replace(seat.given, deadline_s=longest_s))
    if changed:
        state = reseated(state, {**state.seats, **changed})
    if state.phase is Phase.COMMITTING:
        return watch_committing(state, event)
    if not event.now_s < state.deadline_s <= longest_s:  # nobody is at work: the buffer waits for devices
        state = replace(state, deadline_s=longest_s)
    return _end_if_due(state, event.now_s)


def _close(state: Round, event: CalledOff) -> Step:
    if state.closing:
        return state, ()
    return _end_if_due(replace(state, closing=event.reason), event.now_s)


def _reopen(state: Round, event: ReportsUnreadable) -> Step:
    state, effects = refuse(state, event.devices)
    early = {
        device: replace(state.seats[device], state=SeatState.REPORTED) for device in state.devices(SeatState.EARLY)
    }
    deadline_s = event.now_s + state.rules.report_deadline_s
    reopened = replace(reseated(state, {**state.seats, **early}), phase=Phase.REPORTING, deadline_s=deadline_s)
    ended, others = _end_if_due(reopened, event.now_s)
    return ended, effects + others


def _end_if_due(state: Round, now_s: float) -> Step:
    if state.phase is not Phase.REPORTING or (state.closing and state.working):
        return state, ()
    if state.reported >= (state.rules.minimum if state.closing else state.rules.goal):
        return begin_commit(state, now_s)
    return (abandoned(state, AbandonCause.CALLED_OFF, state.closing, now_s) if state.closing else state), ()


TABLE = table(_rows())
