"""A synchronous round of federated learning: its state machine, without I/O.

Theory of operation
===================

A round begins in SELECTION. Devices that check in join a *pool*. Selection ends when the pool holds a cohort (goal x
over-selection) and the selection window has passed, or when the deadline expires with at least the minimum in the pool.
Then a seeded uniform sample of the pool gets *seats* and the round goes to REPORTING. A few of the other devices stay
in the pool as the *reserve*; the rest are told to come back later. With fewer than the minimum at the deadline, the
round is ABANDONED. While the pool is empty no device is waiting, so a round that follows empty ones stays open longer;
from the first arrival on, the usual deadline applies.

In REPORTING each seat ends as reported, refused (an invalid report) or dropped. During the first half of the reporting
time, refused and dropped seats are filled again: first from the reserve, then with devices that check in. A device that
dropped may return for another attempt. A device that loses its connection keeps its seat for a short grace period; even
later its report counts if it arrives before the round ends. The round goes to COMMITTING when the goal is reached, or
when at least the minimum have reported and either no device is still working or the deadline has expired. Otherwise it
ends ABANDONED and the model stays unchanged.

In COMMITTING the reports are averaged. The round ends COMMITTED or, if averaging fails or takes too long, ABANDONED.
Both phases are terminal: they only answer repeated or late reports. Reports that prove unreadable are refused after
all; if too few remain, the round returns to REPORTING and their seats are given to other devices.

If the coordinator learns only the sum of the reports (:mod:`nightjar.coordinator.engine.secure_sums`), no seat is
filled again, and a round whose sum fails is ABANDONED.

Every phase has a deadline, and a deadline is never further away than its phase is long, so a clock that is set back
does not prolong a round. :mod:`nightjar.coordinator.rounds.rules` gives the durations.

::

    step(round, event) -> (round, effects)

Each event carries the time; randomness comes from the seed that the round was opened with. A pair (phase, event) that
is not in TABLE raises IllegalEvent and changes nothing. Every effect may be carried out twice without harm.

Source: Bonawitz et al. 2019, "Towards Federated Learning at Scale", section 2.2 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    AggregationFinished,
    AssignDevice,
    CalledOff,
    ClockTicked,
    CountRefusal,
    DeviceCheckedIn,
    DeviceDroppedOut,
    DeviceLost,
    DeviceReturned,
    Effect,
    Event,
    KeepReport,
    RejectCheckIn,
    ReportReceived,
    ReportsUnreadable,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.round import (
    STALE,
    AbandonCause,
    Phase,
    Round,
    abandoned,
    awaits_report,
    dropouts,
    dropped,
    has_room,
    is_lost,
    is_named,
    out_of_time,
    reseated,
    seat_round,
    seat_version,
    seated,
)
from nightjar.coordinator.rounds.rules import LONGEST_EMPTY_SELECTION_S
from nightjar.coordinator.rounds.seats import AWAITED, Seat, SeatState, newcomer
from nightjar.coordinator.rounds.selection import sample
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.machine import Row, find_row, row, table
from nightjar.wire.messages import DropoutCause, RejectionReason, Verdict


def _rows() -> Iterable[Row[Step]]:
    """The legal (phase, event) pairs; any other pair raises IllegalEvent."""
    return (
        row(Phase.SELECTION, DeviceCheckedIn, _join_pool, Phase.SELECTION, Phase.REPORTING),
        row(Phase.SELECTION, DeviceLost, _leave_pool, Phase.SELECTION),
        row(Phase.SELECTION, DeviceReturned, _ignore, Phase.SELECTION),
        row(Phase.SELECTION, DeviceDroppedOut, _leave_pool, Phase.SELECTION),
        row(Phase.SELECTION, ReportReceived, answer, Phase.SELECTION),
        row(Phase.SELECTION, ClockTicked, _watch_selection, Phase.SELECTION, Phase.REPORTING, Phase.ABANDONED),
        row(Phase.SELECTION, CalledOff, _call_off, Phase.ABANDONED),
        row(Phase.REPORTING, DeviceCheckedIn, _seat_newcomer, Phase.REPORTING),
        row(Phase.REPORTING, DeviceLost, start_grace, Phase.REPORTING),
        row(Phase.REPORTING, DeviceReturned, end_grace, Phase.REPORTING),
        row(Phase.REPORTING, DeviceDroppedOut, _drop, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, ReportReceived, _take_report, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, ClockTicked, _watch_reporting, Phase.REPORTING, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.REPORTING, CalledOff, _ignore, Phase.REPORTING),
        row(Phase.REPORTING, AggregationFailed, fail, Phase.ABANDONED),
        row(Phase.COMMITTING, DeviceCheckedIn, _turn_away, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceLost, _ignore, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceReturned, _ignore, Phase.COMMITTING),
        row(Phase.COMMITTING, DeviceDroppedOut, _ignore, Phase.COMMITTING),
        row(Phase.COMMITTING, ReportReceived, answer, Phase.COMMITTING),
        row(Phase.COMMITTING, ClockTicked, watch_committing, Phase.COMMITTING, Phase.ABANDONED),
        row(Phase.COMMITTING, AggregationFinished, finish, Phase.COMMITTED),
        row(Phase.COMMITTING, AggregationFailed, fail, Phase.ABANDONED),
        row(Phase.COMMITTING, ReportsUnreadable, _reopen, Phase.REPORTING, Phase.COMMITTING),
        row(Phase.COMMITTING, CalledOff, _ignore, Phase.COMMITTING),
        row(Phase.COMMITTED, ReportReceived, answer, Phase.COMMITTED),
        row(Phase.ABANDONED, ReportReceived, answer, Phase.ABANDONED),
    )


UNREADABLE = "payload"
"""Error code of a report that proves unreadable only when it is averaged."""


Step = tuple[Round, tuple[Effect, ...]]


def step(state: Round, event: Event) -> Step:
    """The round after an event, and the effects of the event in the order in which they must be carried out.

    Raises:
        IllegalEvent: the table has no row for this event in this phase.
    """
    transition = find_row(TABLE, state.phase, type(event), lambda: f"round {state.number}, {state.phase.value}")
    return transition.handle(state, event)


# SELECTION


def _join_pool(state: Round, event: DeviceCheckedIn) -> Step:
    pool = state.pool if event.device in state.pool else (*state.pool, event.device)
    # An empty selection may have a long deadline; once a device waits, the usual one applies.
    joined = _bounded(replace(state, pool=pool), event.now_s + state.rules.selection_deadline_s)
    return _begin(joined, event.now_s) if _may_begin(joined, event.now_s) else (joined, ())


def _leave_pool(state: Round, event: DeviceLost | DeviceDroppedOut) -> Step:
    return replace(state, pool=tuple(device for device in state.pool if device != event.device)), ()


def _watch_selection(state: Round, event: ClockTicked) -> Step:
    rules, now_s = state.rules, event.now_s
    longest_s = rules.selection_deadline_s if state.pool else rules.empty_selection_s(state.empty_before)
    state = _bounded(state, now_s + longest_s)
    if _may_begin(state, now_s):
        return _begin(state, now_s)
    if now_s < state.deadline_s:
        return state, ()
    longest_s = max(rules.selection_deadline_s, LONGEST_EMPTY_SELECTION_S)
    if len(state.pool) + event.busy >= rules.minimum and 0 <= now_s - state.opened_at_s < longest_s and event.busy:
        return replace(state, deadline_s=now_s + rules.selection_deadline_s), ()  # other tasks will release them
    reason = state.explain(event.elsewhere)
    turned_away = tuple(RejectCheckIn(d, RejectionReason.TOO_FEW_DEVICES, reason) for d in state.pool)
    cause = AbandonCause.TOO_FEW_DEVICES if state.pool else AbandonCause.NOBODY_CAME
    return replace(abandoned(state, cause, reason, now_s), pool=()), turned_away


def _call_off(state: Round, event: CalledOff) -> Step:
    turned_away = tuple(RejectCheckIn(device, RejectionReason.NO_TASK, event.reason) for device in state.pool)
    return replace(abandoned(state, AbandonCause.CALLED_OFF, event.reason, event.now_s), pool=()), turned_away


def _may_begin(state: Round, now_s: float) -> bool:
    rules = state.rules
    full = len(state.pool) >= rules.cohort and now_s >= state.opened_at_s + rules.selection_window_s
    return full or (now_s >= state.deadline_s and len(state.pool) >= rules.minimum)


def _begin(state: Round, now_s: float) -> Step:
    chosen = sample(state.pool, state.rules.cohort, state.seed, state.number)
    others = [device for device in state.pool if device not in set(chosen)]
    reserve = sample(others, state.rules.reserve, state.seed, state.number)
    begun = replace(
        state,
        phase=Phase.REPORTING,
        pool=tuple(reserve),
        seats={device: Seat() for device in chosen},
        working=len(chosen),
        started_at_s=now_s,
        deadline_s=now_s + state.rules.report_deadline_s,
    )
    assigned = tuple(AssignDevice(device, state.number, 1) for device in chosen)
    return begun, assigned + _not_selected(sorted(set(others) - set(reserve)))


def _not_selected(devices: Iterable[DeviceId]) -> tuple[Effect, ...]:
    return tuple(RejectCheckIn(device, RejectionReason.NOT_SELECTED) for device in devices)


# REPORTING


def _seat_newcomer(state: Round, event: DeviceCheckedIn) -> Step:
    if event.device in state.pool:
        return state, ()
    seat = state.seats.get(event.device)
    if seat is not None and seat.state is SeatState.WORKING:
        # The device does not know of its seat: the assignment was lost.
        known = seated(state, event.device, replace(seat, lost_since_s=None))
        return known, (AssignDevice(event.device, state.number, seat.attempt),)
    if not has_room(state, event.device, event.now_s):
        return _turn_away(state, event)
    fresh = newcomer(seat)
    return seated(state, event.device, fresh), (AssignDevice(event.device, state.number, fresh.attempt),)


def _turn_away(state: Round, event: DeviceCheckedIn) -> Step:
    return state, (RejectCheckIn(event.device, RejectionReason.ROUND_IN_PROGRESS),)


def start_grace(state: Round, event: DeviceLost) -> Step:
    """Note that a selected device lost its connection, or take it out of the pool."""
    if event.device in state.pool:
        return _leave_pool(state, event)
    seat = state.seats.get(event.device)
    if seat is None or seat.state is not SeatState.WORKING or seat.lost_since_s is not None:
        return state, ()
    return seated(state, event.device, replace(seat, lost_since_s=event.now_s)), ()


def end_grace(state: Round, event: DeviceReturned) -> Step:
    """Note that a selected device is connected again."""
    seat = state.seats.get(event.device)
    if seat is None or seat.lost_since_s is None:
        return state, ()
    return seated(state, event.device, replace(seat, lost_since_s=None)), ()


def _drop(state: Round, event: DeviceDroppedOut) -> Step:
    if event.device in state.pool:
        return _leave_pool(state, event)
    seat = state.seats.get(event.device)
    if seat is None or seat.attempt != event.attempt or seat.state not in AWAITED:
        return state, ()
    # The device knows the cause better than the coordinator, so it may correct a CONNECTION_LOST.
    return _end_if_due(seated(state, event.device, dropped(seat, event.cause)), event.now_s)


def _take_report(state: Round, event: ReportReceived) -> Step:
    if not awaits_report(state, event.device, event.attempt):
        return answer(state, event)
    recorded, effects = record_report(state, event, SeatState.REPORTED)
    ended, others = _end_if_due(recorded, event.now_s)
    return ended, effects + others


def record_report(state: Round, event: ReportReceived, accepted: SeatState) -> Step:
    """Record an awaited report at its seat: refused if the report is broken, else in the state ``accepted``."""
    seat = replace(state.seats[event.device], cause=None, lost_since_s=None)
    if event.code:
        refused = replace(seat, state=SeatState.REFUSED, code=event.code)
        invalid = receipt(state, event, Verdict.INVALID, event.code, event.detail)
        return seated(state, event.device, refused), (CountRefusal(event.device), invalid)
    kept = KeepReport(event.device, state.number, event.attempt)
    reported = seated(state, event.device, replace(seat, state=accepted))
    return reported, (kept, receipt(state, event, Verdict.ACCEPTED))


def _watch_reporting(state: Round, event: ClockTicked) -> Step:
    state = _bounded(state, event.now_s + state.rules.report_deadline_s)
    lost = {
        device: dropped(seat, DropoutCause.CONNECTION_LOST)
        for device, seat in state.seats.items()
        if is_lost(state, seat, event.now_s)
    }
    watched = reseated(state, {**state.seats, **lost}) if lost else state
    return _end_if_due(watched, event.now_s)


def _end_if_due(state: Round, now_s: float) -> Step:
    if state.reported >= state.rules.goal:
        return begin_commit(state, now_s)
    if now_s >= state.deadline_s:
        state = reseated(state, {device: out_of_time(seat) for device, seat in state.seats.items()})
    state, effects = _call_reserve(state, now_s)
    if state.working:
        return state, effects
    if state.reported >= state.rules.minimum:
        ended, others = begin_commit(state, now_s)
        return ended, effects + others
    if now_s < min(state.rules.replacement_ends_s(state.deadline_s), state.deadline_s):
        return state, effects
    causes = ", ".join(sorted(f"{cause.value.replace('-', ' ')} {count}" for cause, count in dropouts(state).items()))
    reason = f"{state.reported} of {state.rules.minimum} needed reports came"
    reason += f"; dropouts: {causes}" if causes else ""
    return abandoned(state, AbandonCause.TOO_FEW_REPORTS, reason, now_s), effects


def _call_reserve(state: Round, now_s: float) -> Step:
    """Give free seats to the reserve; once a device could hardly finish, send the reserve away."""
    room = max(0, state.rules.cohort - state.working - state.reported)
    if not state.pool:
        return state, ()
    if now_s >= state.rules.replacement_ends_s(state.deadline_s):
        return replace(state, pool=()), _not_selected(state.pool)
    called, pool = state.pool[:room], state.pool[room:]
    if not called:
        return state, ()
    seated = reseated(replace(state, pool=pool), {**state.seats, **{device: Seat() for device in called}})
    return seated, tuple(AssignDevice(device, state.number, 1) for device in called)


def begin_commit(state: Round, now_s: float) -> Step:
    """Go to COMMITTING."""
    deadline_s = now_s + state.rules.commit_deadline_s
    committing = replace(state, phase=Phase.COMMITTING, deadline_s=deadline_s, pool=())
    return committing, (*_not_selected(state.pool), StartAggregation(state.number))


# COMMITTING and after


def finish(state: Round, event: AggregationFinished) -> Step:
    """End the round COMMITTED."""
    state, effects = refuse(state, event.unreadable)
    return replace(state, phase=Phase.COMMITTED, version=event.version, closed_at_s=event.now_s), effects


def _reopen(state: Round, event: ReportsUnreadable) -> Step:
    state, effects = refuse(state, event.devices)
    reopened = replace(state, phase=Phase.REPORTING, deadline_s=event.now_s + state.rules.report_deadline_s)
    ended, others = _end_if_due(reopened, event.now_s)
    return ended, effects + others


def refuse(state: Round, devices: tuple[DeviceId, ...]) -> Step:
    """Refuse reports that were accepted and then proved unreadable."""
    if not devices:
        return state, ()
    seated = {device: state.seats[device] for device in devices if device in state.seats}
    refused = {device: replace(seat, state=SeatState.REFUSED, code=UNREADABLE) for device, seat in seated.items()}
    return reseated(state, {**state.seats, **refused}), tuple(CountRefusal(device) for device in sorted(refused))


def fail(state: Round, event: AggregationFailed) -> Step:
    """End the round ABANDONED, because averaging failed."""
    return abandoned(state, AbandonCause.AVERAGING_FAILED, f"averaging failed: {event.reason}", event.now_s), ()


def watch_committing(state: Round, event: ClockTicked) -> Step:
    """End the round ABANDONED if averaging takes too long."""
    state = _bounded(state, event.now_s + state.rules.commit_deadline_s)
    if event.now_s < state.deadline_s:
        return state, ()
    reason = f"averaging did not end within {state.rules.commit_deadline_s:g} s"
    return abandoned(state, AbandonCause.AVERAGING_FAILED, reason, event.now_s), ()


def answer(state: Round, event: ReportReceived) -> Step:
    """Answer a report that is not awaited."""
    seat = state.seats.get(event.device)
    if seat is None:
        detail = f"this device was not selected for round {event.given or state.number}"
        return state, (receipt(state, event, Verdict.INVALID, "not-selected", detail),)
    if not is_named(state, seat, event.attempt, event.given):
        detail = f"expected a report of round {seat_round(state, seat)}, attempt {seat.attempt}"
        return state, (receipt(state, event, Verdict.INVALID, "attempt", detail),)
    match seat.state:
        case SeatState.REPORTED | SeatState.EARLY:
            return state, (receipt(state, event, Verdict.DUPLICATE),)
        case SeatState.REFUSED:
            return state, (receipt(state, event, Verdict.INVALID, seat.code),)
        case SeatState.STALE:
            return state, (stale_receipt(state, event, seat),)
        case SeatState.WORKING | SeatState.DROPPED | SeatState.CARRIED:
            return state, (receipt(state, event, Verdict.LATE),)


def _ignore(state: Round, _event: Event) -> Step:
    return state, ()


def receipt(state: Round, event: ReportReceived, verdict: Verdict, code: str = "", detail: str = "") -> SendReceipt:
    """The receipt of a report."""
    return SendReceipt(event.device, event.given or state.number, event.attempt, verdict, code, detail)


def stale_receipt(state: Round, event: ReportReceived, seat: Seat) -> SendReceipt:
    """The receipt of a report whose base version is too old."""
    detail = f"its base, version {seat_version(state, seat)}, is more than {state.rules.max_staleness} versions old"
    return receipt(state, event, Verdict.LATE, STALE, detail)


def _bounded(state: Round, latest_s: float) -> Round:
    return state if state.deadline_s <= latest_s else replace(state, deadline_s=latest_s)


TABLE = table(_rows())
