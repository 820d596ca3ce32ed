import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    AggregationFinished,
    AssignDevice,
    ClockTicked,
    CountRefusal,
    DeviceCheckedIn,
    DeviceDroppedOut,
    DeviceLost,
    DeviceReturned,
    Event,
    KeepReport,
    RejectCheckIn,
    ReportReceived,
    ReportsUnreadable,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.round import (
    MAX_ATTEMPTS,
    TERMINAL,
    AbandonCause,
    Phase,
    Round,
    awaits_report,
    dropouts,
    open_round,
)
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.rounds.synchronous import TABLE, step
from nightjar.wire.errors import IllegalEvent
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause, RejectionReason, Verdict

RULES = RoundRules(
    goal=2,
    minimum=2,
    over_selection=1.5,
    selection_window_s=0.0,
    selection_deadline_s=60.0,
    report_deadline_s=100.0,
    lost_grace_s=10.0,
)
A, B, C, D, E = (DeviceId(name) for name in "abcde")


def opened(**rules) -> Round:
    return open_round(1, 0, msgspec.structs.replace(RULES, **rules), seed=7, now_s=0.0)


def after(state: Round, *events: Event) -> Round:
    for event in events:
        state, _ = step(state, event)
    return state


def reporting(**rules) -> Round:
    """a, b and c are selected at second 1."""
    state = after(opened(**rules), *(DeviceCheckedIn(device, 1.0) for device in (A, B, C)))
    assert state.phase is Phase.REPORTING
    return state


def committing() -> Round:
    return after(reporting(), ReportReceived(A, 1, 2.0), ReportReceived(B, 1, 3.0))


def in_phase(phase: Phase) -> Round:
    match phase:
        case Phase.SELECTION:
            return after(opened(), DeviceCheckedIn(A, 1.0))
        case Phase.REPORTING:
            return reporting()
        case Phase.COMMITTING:
            return committing()
        case Phase.COMMITTED:
            return after(committing(), AggregationFinished(1, 4.0))
        case Phase.ABANDONED:
            return after(committing(), AggregationFailed("no disk", 4.0))


EVENTS = (
    DeviceCheckedIn(A, 5.0),
    DeviceLost(A, 5.0),
    DeviceReturned(A, 5.0),
    DeviceDroppedOut(A, 1, DropoutCause.UNPLUGGED, 5.0),
    ReportReceived(A, 1, 5.0),
    ClockTicked(5.0),
    AggregationFinished(1, 5.0),
    AggregationFailed("no disk", 5.0),
    ReportsUnreadable((A,), 5.0),
)


@pytest.mark.parametrize(
    ("phase", "event"), list(itertools.product(Phase, EVENTS)), ids=lambda v: getattr(v, "value", type(v).__name__)
)
def test_each_pair_is_in_the_table_or_raises_and_changes_nothing(phase, event):
    state = in_phase(phase)
    assert state.phase is phase
    before = msgspec.json.encode(state)
    row = TABLE.get((phase, type(event)))
    if row is None:
        with pytest.raises(IllegalEvent):
            step(state, event)
    else:
        assert step(state, event)[0].phase in row.leads_to
    assert msgspec.json.encode(state) == before


def test_a_full_cohort_begins_the_round_at_once():
    state = after(opened(), DeviceCheckedIn(A, 1.0), DeviceCheckedIn(B, 1.0))
    state, effects = step(state, DeviceCheckedIn(C, 2.0))
    assert state.phase is Phase.REPORTING
    assert effects == tuple(AssignDevice(device, 1, 1) for device in (A, B, C))
    assert state.deadline_s == 102.0


def with_reserve() -> Round:
    """Three of five devices are selected at second 5, one waits for a lost seat, and one was sent away."""
    state = after(opened(selection_window_s=5.0), *(DeviceCheckedIn(device, 1.0) for device in (A, B, C, D, E)))
    return after(state, ClockTicked(5.0))


def test_the_selection_window_collects_more_than_a_cohort_and_of_the_rest_one_waits_for_a_lost_seat():
    state = after(opened(selection_window_s=5.0), *(DeviceCheckedIn(device, 1.0) for device in (A, B, C, D, E)))
    assert state.phase is Phase.SELECTION
    state, effects = step(state, ClockTicked(5.0))
    assert len(state.seats) == RULES.cohort == 3
    assert len(state.pool) == RULES.reserve == 1
    (sent_away,) = {A, B, C, D, E} - set(state.seats) - set(state.pool)
    assert effects[-1] == RejectCheckIn(sent_away, RejectionReason.NOT_SELECTED)


@pytest.mark.parametrize("lost", ["refused", "dropped"])
def test_a_lost_seat_is_filled_at_once_in_the_same_round(lost):
    state = with_reserve()
    device, (waits,) = min(state.seats), state.pool
    refused = ReportReceived(device, 1, 6.0, "layout", "another model")
    event = refused if lost == "refused" else DeviceDroppedOut(device, 1, DropoutCause.IN_USE, 6.0)
    state, effects = step(state, event)
    assert effects[-1] == AssignDevice(waits, 1, 1)
    assert (state.pool, state.working, state.seats[waits].state) == ((), 3, SeatState.WORKING)
    assert step(state, ReportReceived(waits, 1, 7.0))[1][-1].verdict is Verdict.ACCEPTED


def test_whoever_waits_for_a_lost_seat_is_sent_away_once_it_could_hardly_finish_or_the_round_is_full():
    state = with_reserve()
    (waits,) = state.pool
    assert step(state, DeviceCheckedIn(waits, 6.0)) == (state, ())
    sent_away = (RejectCheckIn(waits, RejectionReason.NOT_SELECTED),)
    late, effects = step(state, ClockTicked(55.0))
    assert (late.pool, effects) == ((), sent_away)
    first, second, _ = sorted(state.seats)
    full, effects = step(after(state, ReportReceived(first, 1, 6.0)), ReportReceived(second, 1, 7.0))
    assert (full.phase, full.pool, effects[-2:]) == (Phase.COMMITTING, (), (*sent_away, StartAggregation(1)))


@pytest.mark.parametrize("gone", [DeviceLost, DeviceDroppedOut])
def test_whoever_waits_for_a_lost_seat_may_go(gone):
    state = with_reserve()
    (waits,) = state.pool
    event = DeviceLost(waits, 6.0) if gone is DeviceLost else DeviceDroppedOut(waits, 1, DropoutCause.IN_USE, 6.0)
    assert after(state, event).pool == ()


def test_unreadable_reports_are_refused_after_all():
    state, effects = step(committing(), AggregationFinished(1, 4.0, (B,)))
    assert (state.phase, effects) == (Phase.COMMITTED, (CountRefusal(B),))
    assert (state.devices(SeatState.REFUSED), state.reported) == ([B], 1)
    assert step(state, ReportReceived(B, 1, 5.0))[1][0].verdict is Verdict.INVALID


def test_with_too_few_readable_reports_a_round_goes_on_and_the_seats_are_given_to_others():
    state, effects = step(committing(), ReportsUnreadable((A, B), 50.0))
    assert (state.phase, state.reported, state.deadline_s) == (Phase.REPORTING, 0, 150.0)
    assert effects == (CountRefusal(A), CountRefusal(B))
    assert step(state, DeviceCheckedIn(A, 51.0))[1] == (RejectCheckIn(A, RejectionReason.ROUND_IN_PROGRESS),)
    state, effects = step(state, DeviceCheckedIn(D, 51.0))
    assert effects == (AssignDevice(D, 1, 1),)
    state = after(state, ReportReceived(C, 1, 52.0), ReportReceived(D, 1, 53.0))
    assert (state.phase, state.devices(SeatState.REPORTED)) == (Phase.COMMITTING, [C, D])


def test_a_second_check_in_only_refreshes_the_first():
    state = after(opened(), DeviceCheckedIn(A, 1.0))
    assert step(state, DeviceCheckedIn(A, 2.0)) == (state, ())


@pytest.mark.parametrize("event", [DeviceLost(A, 2.0), DeviceDroppedOut(A, 1, DropoutCause.IN_USE, 2.0)])
def test_a_device_that_goes_away_leaves_the_pool(event):
    assert after(opened(), DeviceCheckedIn(A, 1.0), event).pool == ()


def test_at_the_selection_deadline_the_minimum_is_enough():
    state = after(opened(), DeviceCheckedIn(A, 1.0), DeviceCheckedIn(B, 1.0), ClockTicked(59.9))
    assert state.phase is Phase.SELECTION
    assert set(after(state, ClockTicked(60.0)).seats) == {A, B}


def test_too_few_at_the_selection_deadline_are_told_so():
    state = after(opened(), DeviceCheckedIn(A, 1.0))
    state, effects = step(state, ClockTicked(60.0))
    assert state.phase is Phase.ABANDONED
    assert state.reason == "waiting: 1 of 2 phones eligible"
    assert effects == (RejectCheckIn(A, RejectionReason.TOO_FEW_DEVICES, state.reason),)


def test_a_round_to_which_nobody_comes_is_abandoned_and_says_what_the_others_do():
    state, effects = step(opened(), ClockTicked(60.0, "14 not charging"))
    assert (state.phase, state.cause, effects) == (Phase.ABANDONED, AbandonCause.NOBODY_CAME, ())
    assert state.reason == "waiting: 0 of 2 phones eligible; 14 not charging"


def test_after_empty_rounds_a_selection_stays_open_longer_until_somebody_comes():
    state = open_round(4, 0, RULES, seed=7, now_s=0.0, empty_before=3)
    assert state.deadline_s == 480.0
    state = after(state, ClockTicked(400.0), DeviceCheckedIn(A, 401.0))
    assert state.deadline_s == 461.0
    assert after(state, ClockTicked(461.0)).cause is AbandonCause.TOO_FEW_DEVICES


def test_the_time_of_those_who_wait_is_not_made_longer_by_those_who_come_later():
    state = after(opened(), DeviceCheckedIn(A, 50.0))
    assert state.deadline_s == 60.0


@pytest.mark.parametrize("phase", [Phase.SELECTION, Phase.REPORTING, Phase.COMMITTING])
def test_a_clock_that_is_set_back_makes_no_phase_longer_than_it_is(phase):
    state, long_ago_s = in_phase(phase), -1e6
    longest_s = {
        Phase.SELECTION: RULES.selection_deadline_s,
        Phase.REPORTING: RULES.report_deadline_s,
        Phase.COMMITTING: RULES.commit_deadline_s,
    }[phase]
    state = after(state, ClockTicked(long_ago_s))
    assert state.phase is phase
    assert state.deadline_s == long_ago_s + longest_s
    assert after(state, ClockTicked(long_ago_s + longest_s)).phase is Phase.ABANDONED


def test_an_averaging_that_never_ends_is_given_up():
    state = after(committing(), ClockTicked(3.0 + RULES.commit_deadline_s))
    assert (state.phase, state.cause) == (Phase.ABANDONED, AbandonCause.AVERAGING_FAILED)
    assert state.reason == "averaging did not end within 7200 s"


def test_the_goal_ends_the_reporting_and_the_reports_are_kept_before_their_receipts():
    state, effects = step(after(reporting(), ReportReceived(A, 1, 2.0)), ReportReceived(B, 1, 3.0))
    assert state.phase is Phase.COMMITTING
    assert effects == (KeepReport(B, 1, 1), SendReceipt(B, 1, 1, Verdict.ACCEPTED), StartAggregation(1))


def test_the_same_report_again_is_a_duplicate_and_counts_once():
    state = after(reporting(), ReportReceived(A, 1, 2.0))
    assert step(state, ReportReceived(A, 1, 3.0)) == (state, (SendReceipt(A, 1, 1, Verdict.DUPLICATE),))


def test_a_stranger_gets_not_selected():
    _, (receipt,) = step(reporting(), ReportReceived(D, 1, 2.0))
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "not-selected")


def test_a_report_of_another_attempt_is_invalid():
    _, (receipt,) = step(reporting(), ReportReceived(A, 2, 2.0))
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "attempt")


def test_an_invalid_report_settles_its_seat_for_good():
    state, effects = step(reporting(), ReportReceived(A, 1, 2.0, "layout", "too long"))
    assert effects == (CountRefusal(A), SendReceipt(A, 1, 1, Verdict.INVALID, "layout", "too long"))
    assert state.devices(SeatState.REFUSED) == [A]
    assert step(state, ReportReceived(A, 1, 3.0)) == (state, (SendReceipt(A, 1, 1, Verdict.INVALID, "layout"),))


@pytest.mark.parametrize(
    ("phase", "device", "verdict"),
    [
        (Phase.COMMITTING, A, Verdict.DUPLICATE),
        (Phase.COMMITTING, C, Verdict.LATE),
        (Phase.COMMITTED, A, Verdict.DUPLICATE),
        (Phase.COMMITTED, C, Verdict.LATE),
        (Phase.ABANDONED, A, Verdict.DUPLICATE),
        (Phase.ABANDONED, C, Verdict.LATE),
        (Phase.COMMITTED, D, Verdict.INVALID),
    ],
)
def test_a_late_report_gets_its_receipt_and_changes_nothing(phase, device, verdict):
    state = in_phase(phase)
    unchanged, (receipt,) = step(state, ReportReceived(device, 1, 9.0))
    assert unchanged == state
    assert receipt.verdict is verdict


def test_all_settled_with_the_minimum_commits_without_waiting_for_the_goal():
    state = after(
        reporting(goal=3, over_selection=1.0),
        ReportReceived(A, 1, 2.0),
        ReportReceived(B, 1, 2.0),
        DeviceDroppedOut(C, 1, DropoutCause.UNPLUGGED, 3.0),
    )
    assert state.phase is Phase.COMMITTING


def test_at_the_report_deadline_the_minimum_commits_and_the_others_were_silent():
    state = after(reporting(goal=3, over_selection=1.0), ReportReceived(A, 1, 2.0), ReportReceived(B, 1, 2.0))
    state = after(state, ClockTicked(100.9))
    assert state.phase is Phase.REPORTING
    state = after(state, ClockTicked(101.0))
    assert state.phase is Phase.COMMITTING
    assert dropouts(state) == {DropoutCause.SILENT: 1}


def test_a_round_that_could_begin_says_how_many_phones_it_wants():
    waiting = after(opened(), DeviceCheckedIn(A, 1.0))
    assert waiting.explain() == "waiting: 1 of 2 phones eligible"
    assert after(waiting, DeviceCheckedIn(B, 2.0)).explain() == "waiting: 2 phones eligible, enough to begin; 3 wanted"


def test_too_few_reports_abandon_the_round_with_a_reason():
    state = after(
        reporting(), ReportReceived(A, 1, 2.0), DeviceDroppedOut(B, 1, DropoutCause.IN_USE, 3.0), ClockTicked(101.0)
    )
    assert state.phase is Phase.ABANDONED
    assert state.reason == "1 of 2 needed reports came; dropouts: in use 1, silent 1"


def test_when_all_have_dropped_the_round_waits_for_newcomers_and_then_gives_up():
    drops = [DeviceDroppedOut(device, 1, DropoutCause.IN_USE, 2.0) for device in (A, B, C)]
    state = after(reporting(), *drops, ClockTicked(50.9))
    assert state.phase is Phase.REPORTING
    assert after(state, ClockTicked(51.0)).phase is Phase.ABANDONED


def test_a_dropped_device_is_replaced_while_there_is_time():
    state = after(reporting(), DeviceDroppedOut(A, 1, DropoutCause.UNPLUGGED, 2.0))
    _, effects = step(state, DeviceCheckedIn(D, 3.0))
    assert effects == (AssignDevice(D, 1, 1),)
    _, effects = step(state, DeviceCheckedIn(D, 51.0))
    assert effects == (RejectCheckIn(D, RejectionReason.ROUND_IN_PROGRESS),)


def test_without_a_free_seat_a_newcomer_is_sent_away():
    _, effects = step(reporting(), DeviceCheckedIn(D, 3.0))
    assert effects == (RejectCheckIn(D, RejectionReason.ROUND_IN_PROGRESS),)


def test_a_dropped_device_may_come_back_as_its_next_attempt_and_both_are_counted():
    state = after(reporting(), DeviceDroppedOut(A, 1, DropoutCause.UNPLUGGED, 2.0))
    state, effects = step(state, DeviceCheckedIn(A, 3.0))
    assert effects == (AssignDevice(A, 1, 2),)
    state = after(state, DeviceDroppedOut(A, 2, DropoutCause.IN_USE, 4.0))
    assert dropouts(state) == {DropoutCause.UNPLUGGED: 1, DropoutCause.IN_USE: 1}


def test_a_device_that_fails_over_and_over_does_not_get_a_seat_for_ever():
    state = reporting()
    for attempt in range(1, MAX_ATTEMPTS + 1):
        state = after(state, DeviceDroppedOut(A, attempt, DropoutCause.TRAINING_FAILED, 2.0), DeviceCheckedIn(A, 3.0))
    assert state.seats[A].attempt == MAX_ATTEMPTS
    assert state.seats[A].state is SeatState.DROPPED


def test_a_device_that_lost_its_assignment_gets_it_again():
    state = reporting()
    assert step(state, DeviceCheckedIn(A, 3.0)) == (state, (AssignDevice(A, 1, 1),))


def test_a_lost_connection_drops_the_seat_only_after_the_grace():
    state = after(reporting(), DeviceLost(A, 2.0), ClockTicked(11.9))
    assert not dropouts(state)
    assert dropouts(after(state, ClockTicked(12.0))) == {DropoutCause.CONNECTION_LOST: 1}


def test_a_device_that_returns_within_the_grace_keeps_its_seat():
    state = after(reporting(), DeviceLost(A, 2.0), DeviceReturned(A, 5.0), ClockTicked(30.0))
    assert state.seats[A].state is SeatState.WORKING


def test_a_lost_device_that_reports_before_the_end_is_accepted():
    state, effects = step(after(reporting(), DeviceLost(A, 2.0), ClockTicked(12.0)), ReportReceived(A, 1, 50.0))
    assert effects[1] == SendReceipt(A, 1, 1, Verdict.ACCEPTED)
    assert not dropouts(state)


def test_a_device_corrects_the_cause_that_was_guessed():
    state = after(
        reporting(), DeviceLost(A, 2.0), ClockTicked(12.0), DeviceDroppedOut(A, 1, DropoutCause.RESTARTED, 13.0)
    )
    assert dropouts(state) == {DropoutCause.RESTARTED: 1}


def test_a_finished_aggregation_commits_a_failed_one_abandons():
    done = after(committing(), AggregationFinished(1, 4.0))
    assert (done.phase, done.version, done.closed_at_s) == (Phase.COMMITTED, 1, 4.0)
    failed = after(committing(), AggregationFailed("no disk", 4.0))
    assert (failed.phase, failed.reason, failed.version) == (Phase.ABANDONED, "averaging failed: no disk", None)


def test_a_round_survives_json():
    for phase in Phase:
        state = in_phase(phase)
        assert msgspec.json.decode(msgspec.json.encode(state), type=Round) == state


DEVICES = st.sampled_from([DeviceId(f"d{number}") for number in range(6)])
SPANS = st.floats(0, 40)
HAPPENINGS = st.one_of(
    st.tuples(st.just(DeviceCheckedIn), DEVICES),
    st.tuples(st.just(DeviceLost), DEVICES),
    st.tuples(st.just(DeviceReturned), DEVICES),
    st.tuples(st.just(DeviceDroppedOut), DEVICES, st.integers(1, 3), st.sampled_from(DropoutCause)),
    st.tuples(st.just(ReportReceived), DEVICES, st.integers(1, 3), st.sampled_from(["", "", "layout"])),
    st.tuples(st.just(ClockTicked)),
    st.tuples(st.just(AggregationFinished)),
    st.tuples(st.just(ReportsUnreadable), st.sets(DEVICES)),
)


def event_of(happening, now_s: float) -> Event:
    match happening:
        case (kind, device) if kind in {DeviceCheckedIn, DeviceLost, DeviceReturned}:
            return kind(device, now_s)
        case (_, device, attempt, DropoutCause() as cause):
            return DeviceDroppedOut(device, attempt, cause, now_s)
        case (_, device, attempt, code):
            return ReportReceived(device, attempt, now_s, code)
        case (kind, devices) if kind is ReportsUnreadable:
            return ReportsUnreadable(tuple(sorted(devices)), now_s)
        case (kind,) if kind is ClockTicked:
            return ClockTicked(now_s)
        case _:
            return AggregationFinished(1, now_s)


@given(st.integers(1, 4), st.integers(1, 4), st.lists(st.tuples(HAPPENINGS, SPANS), max_size=60), st.integers(0, 2**32))
def test_whatever_happens_no_round_commits_below_the_minimum_or_counts_anyone_twice(goal, minimum, story, seed):
    rules = msgspec.structs.replace(RULES, goal=max(goal, minimum), minimum=minimum)
    state, now_s = open_round(1, 0, rules, seed, 0.0), 0.0
    kept: list[DeviceId] = []
    assigned: set[tuple[DeviceId, int]] = set()
    for happening, span_s in story:
        now_s += span_s
        event = event_of(happening, now_s)
        before = state
        try:
            state, effects = step(before, event)
        except IllegalEvent:
            assert (before.phase, type(event)) not in TABLE
            continue
        assert state.phase in TABLE[before.phase, type(event)].leads_to
        for effect in effects:
            match effect:
                case AssignDevice(device, _, attempt):
                    assigned.add((device, attempt))
                case KeepReport(device, _, attempt):
                    assert (device, attempt) in assigned, "a stranger's report was kept"
                    assert awaits_report(before, device, attempt)
                    kept.append(device)
                case StartAggregation():
                    assert len(kept) >= rules.minimum
                case _:
                    pass
        if before.phase in TERMINAL:
            assert state == before
        if isinstance(event, ReportsUnreadable):
            kept = [device for device in kept if device not in event.devices]
        assert len(kept) == len(set(kept)), "a device was counted twice"
        assert not set(state.pool) & set(state.seats), "somebody waits for a second seat"
        assert not state.pool or state.phase in {Phase.SELECTION, Phase.REPORTING}
        assert sorted(kept) == state.devices(SeatState.REPORTED)
        assert state.reported == len(state.devices(SeatState.REPORTED))
        assert state.working == len(state.devices(SeatState.WORKING))
        assert all(seat.cause is not None for seat in state.seats.values() if seat.state is SeatState.DROPPED)
        assert state.phase is not Phase.SELECTION or not state.seats
    if state.phase is Phase.COMMITTED:
        assert len(kept) >= rules.minimum
