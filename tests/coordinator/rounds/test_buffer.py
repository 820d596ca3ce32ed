import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.rounds.buffer import TABLE, carry, opened, step
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
    Event,
    KeepReport,
    RejectCheckIn,
    ReportReceived,
    ReportsUnreadable,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.round import TERMINAL, AbandonCause, Phase, Round, dropouts, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.wire.errors import IllegalEvent
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause, Verdict

RULES = RoundRules(
    goal=2,
    minimum=2,
    over_selection=1.0,
    selection_window_s=0.0,
    selection_deadline_s=60.0,
    report_deadline_s=100.0,
    lost_grace_s=10.0,
    concurrency=3,
    max_staleness=1,
)
A, B, C, D, E = (DeviceId(name) for name in "abcde")


def buffer(number: int = 1, version: int = 0, now_s: float = 0.0, **rules) -> Round:
    return opened(open_round(number, version, msgspec.structs.replace(RULES, **rules), seed=7, now_s=now_s), now_s)


def after(state: Round, *events: Event) -> Round:
    for event in events:
        state, _ = step(state, event)
    return state


def working(**rules) -> Round:
    """a, b and c are at work from second 1."""
    return after(buffer(**rules), *(DeviceCheckedIn(device, 1.0) for device in (A, B, C)))


def committing() -> Round:
    """a and b have reported, c is at work."""
    return after(working(), ReportReceived(A, 1, 2.0), ReportReceived(B, 1, 3.0))


def following(ended: Round, version: int = 1) -> Round:
    return carry(ended, buffer(ended.number + 1, version, 4.0))[1]


def answer(state: Round, event: ReportReceived) -> SendReceipt:
    return next(effect for effect in step(state, event)[1] if isinstance(effect, SendReceipt))


def in_phase(phase: Phase) -> Round:
    match phase:
        case Phase.COMMITTING:
            return committing()
        case Phase.COMMITTED:
            return after(committing(), AggregationFinished(1, 4.0))
        case Phase.ABANDONED:
            return after(committing(), AggregationFailed("no disk", 4.0))
        case _:
            return working()


EVENTS = (
    DeviceCheckedIn(A, 5.0),
    DeviceLost(C, 5.0),
    DeviceReturned(C, 5.0),
    DeviceDroppedOut(C, 1, DropoutCause.UNPLUGGED, 5.0),
    ReportReceived(C, 1, 5.0),
    ClockTicked(5.0),
    AggregationFinished(1, 5.0),
    AggregationFailed("no disk", 5.0),
    ReportsUnreadable((A,), 5.0),
    CalledOff("paused", 5.0),
)


@pytest.mark.parametrize(
    ("phase", "event"),
    list(itertools.product([phase for phase in Phase if phase is not Phase.SELECTION], EVENTS)),
    ids=lambda v: getattr(v, "value", type(v).__name__),
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
    assert msgspec.json.decode(before, type=Round) == state


def test_a_device_gets_a_seat_at_once_while_fewer_than_the_concurrency_are_at_work():
    state, effects = step(buffer(), DeviceCheckedIn(A, 1.0))
    assert effects == (AssignDevice(A, 1, 1),)
    state, effects = step(after(state, *(DeviceCheckedIn(each, 1.0) for each in (B, C))), DeviceCheckedIn(D, 2.0))
    assert isinstance(effects[0], RejectCheckIn)
    state, effects = step(after(state, ReportReceived(A, 1, 3.0)), DeviceCheckedIn(D, 4.0))
    assert effects == (AssignDevice(D, 1, 1),)


def test_goal_reports_start_the_averaging_while_others_work_on():
    state, effects = step(after(working(), ReportReceived(A, 1, 2.0)), ReportReceived(B, 1, 3.0))
    assert state.phase is Phase.COMMITTING
    assert effects[-1] == StartAggregation(1)
    assert state.devices(SeatState.WORKING) == [C]


def test_a_seat_outlives_its_round_and_its_receipt_names_that_round():
    second = following(after(committing(), AggregationFinished(1, 4.0)))
    assert second.devices(SeatState.WORKING) == [C]
    assert second.seats[C].given.staleness == 1
    state, effects = step(second, ReportReceived(C, 1, 9.0, given=1))
    assert effects == (KeepReport(C, 2, 1), SendReceipt(C, 1, 1, Verdict.ACCEPTED))
    assert answer(state, ReportReceived(C, 1, 9.0, given=1)) == SendReceipt(C, 1, 1, Verdict.DUPLICATE)
    assert answer(state, ReportReceived(C, 1, 9.0)).code == "attempt"


def test_a_report_during_the_averaging_is_early_and_counts_in_the_next_buffer():
    state, effects = step(committing(), ReportReceived(C, 1, 3.5))
    assert effects == (KeepReport(C, 1, 1), SendReceipt(C, 1, 1, Verdict.ACCEPTED))
    assert answer(state, ReportReceived(C, 1, 3.6)).verdict is Verdict.DUPLICATE
    ended, second, moved = carry(after(state, AggregationFinished(1, 4.0)), buffer(2, 1, 4.0))
    assert (moved, second.reported, second.devices(SeatState.REPORTED)) == ([C], 1, [C])
    assert (ended.following, ended.seats[C].state, ended.reported) == (2, SeatState.CARRIED, 2)


def test_more_early_reports_than_the_goal_make_one_version():
    state = after(committing(), DeviceCheckedIn(D, 3.1), DeviceCheckedIn(E, 3.2))
    state = after(state, *(ReportReceived(device, 1, 3.5) for device in (C, D, E)), AggregationFinished(1, 4.0))
    state, effects = step(following(state), ClockTicked(4.1))
    assert (state.phase, state.reported, effects) == (Phase.COMMITTING, 3, (StartAggregation(2),))


def test_a_report_of_too_old_a_version_is_late_and_says_why():
    state = following(following(after(committing(), AggregationFinished(1, 4.0))), version=2)
    late = ReportReceived(C, 1, 9.0, given=1)
    expected = SendReceipt(C, 1, 1, Verdict.LATE, "stale", "its base, version 0, is more than 1 versions old")
    state, effects = step(state, late)
    assert effects == (expected,)
    assert answer(state, late) == expected
    _, effects = step(state, DeviceCheckedIn(C, 10.0))
    assert effects == (AssignDevice(C, 3, 2),), "it may work on the new version at once"


def test_while_averaging_a_report_that_would_be_too_old_for_the_next_mean_is_late():
    second = following(after(committing(), AggregationFinished(1, 4.0)))
    second = after(second, DeviceCheckedIn(A, 5.0), DeviceCheckedIn(B, 5.0))
    second = after(second, ReportReceived(A, 1, 6.0), ReportReceived(B, 1, 6.0))
    assert second.phase is Phase.COMMITTING
    assert answer(second, ReportReceived(C, 1, 7.0, given=1)).code == "stale"


def test_a_refused_version_makes_no_report_older():
    assert following(after(committing(), AggregationFinished(1, 4.0)), version=0).seats[C].given.staleness == 0


def test_a_failed_averaging_keeps_the_seats_and_the_early_reports():
    state = after(committing(), DeviceCheckedIn(D, 3.1), ReportReceived(C, 1, 3.5), AggregationFailed("no disk", 4.0))
    second = following(state, version=0)
    assert (second.devices(SeatState.REPORTED), second.devices(SeatState.WORKING)) == ([C], [D])


def test_a_seat_ends_at_its_own_deadline():
    state = after(buffer(), DeviceCheckedIn(A, 1.0), DeviceCheckedIn(B, 51.0), ClockTicked(101.0))
    assert (state.devices(SeatState.DROPPED), state.devices(SeatState.WORKING)) == ([A], [B])
    assert dropouts(state) == {DropoutCause.SILENT: 1}


def test_a_buffer_without_devices_waits_for_them_and_is_never_overdue():
    state = after(buffer(), ClockTicked(99.0))
    assert state.deadline_s == 100.0
    state = after(state, ClockTicked(100.0), ClockTicked(500.0))
    assert (state.phase, state.deadline_s) == (Phase.REPORTING, 600.0)


def test_a_clock_that_is_set_back_does_not_prolong_a_seat():
    state = after(buffer(now_s=1000.0), DeviceCheckedIn(A, 1000.0), ClockTicked(0.0), ClockTicked(100.0))
    assert state.devices(SeatState.DROPPED) == [A]


def test_a_device_without_connection_may_still_report_into_a_later_buffer():
    state = after(working(), DeviceLost(C, 2.0), ClockTicked(13.0))
    assert dropouts(state) == {DropoutCause.CONNECTION_LOST: 1}
    state = after(state, ReportReceived(A, 1, 14.0), ReportReceived(B, 1, 14.0), AggregationFinished(1, 15.0))
    second = following(state)
    assert not dropouts(second), "it is counted once"
    assert answer(second, ReportReceived(C, 1, 20.0, given=1)).verdict is Verdict.ACCEPTED


def test_a_device_that_lost_its_seat_and_got_another_is_not_counted_for_both():
    state = after(working(), DeviceDroppedOut(C, 1, DropoutCause.RESTARTED, 2.0), DeviceCheckedIn(C, 3.0))
    assert state.seats[C].attempt == 2
    assert answer(state, ReportReceived(C, 1, 4.0)).code == "attempt"
    assert answer(state, ReportReceived(C, 2, 4.0)).verdict is Verdict.ACCEPTED


def test_a_device_without_its_assignment_gets_it_again_in_a_later_round():
    second = following(after(committing(), AggregationFinished(1, 4.0)))
    assert step(second, DeviceCheckedIn(C, 5.0))[1] == (AssignDevice(C, 1, 1),)


def test_a_called_off_buffer_gives_no_seats_and_commits_when_nobody_is_at_work():
    state = after(working(), ReportReceived(A, 1, 2.0), CalledOff("the task is paused", 3.0))
    assert isinstance(step(state, DeviceCheckedIn(D, 4.0))[1][0], RejectCheckIn)
    state = after(state, ReportReceived(B, 1, 4.0))
    assert state.phase is Phase.REPORTING, "c may finish"
    assert after(state, ReportReceived(C, 1, 5.0)).phase is Phase.COMMITTING
    assert after(state, DeviceDroppedOut(C, 1, DropoutCause.IN_USE, 5.0)).phase is Phase.COMMITTING


def test_a_called_off_buffer_with_too_few_reports_is_abandoned():
    state = after(buffer(), DeviceCheckedIn(A, 1.0), CalledOff("the task is paused", 2.0), ReportReceived(A, 1, 3.0))
    assert (state.phase, state.cause, state.reason) == (
        Phase.ABANDONED,
        AbandonCause.CALLED_OFF,
        "the task is paused",
    )


def test_unreadable_reports_reopen_the_buffer_which_then_takes_the_early_ones():
    state = after(committing(), ReportReceived(C, 1, 3.5))
    state, effects = step(state, ReportsUnreadable((A,), 4.0))
    assert state.phase is Phase.COMMITTING
    assert effects == (CountRefusal(A), StartAggregation(1))
    assert state.devices(SeatState.REPORTED) == [B, C]


DEVICES = st.sampled_from([DeviceId(f"d{number}") for number in range(6)])
HAPPENINGS = st.one_of(
    st.tuples(st.just("check in"), DEVICES),
    st.tuples(st.just("check in"), DEVICES),
    st.tuples(st.just("report"), DEVICES),
    st.tuples(st.just("report"), DEVICES),
    st.tuples(st.just("report again"), DEVICES),
    st.tuples(st.just("spoil"), DEVICES),
    st.tuples(st.just("drop out"), DEVICES),
    st.tuples(st.just("lose"), DEVICES),
    st.tuples(st.just("return"), DEVICES),
    st.tuples(st.just("average")),
    st.tuples(st.just("fail")),
    st.tuples(st.just("unreadable"), DEVICES),
    st.tuples(st.just("call off")),
)
Key = tuple[int, DeviceId, int]


class Story:
    """Buffers one after another, as the coordinator carries them on, and the books of an observer."""

    def __init__(self, **rules) -> None:
        self.state = buffer(**rules)
        self.now_s = 0.0
        self.seats: dict[DeviceId, list[Key]] = {}
        self.verdicts: dict[Key, list[Verdict]] = {}
        self.used: list[Key] = []
        self.unreadable: set[Key] = set()

    def happen(self, what: str, device: DeviceId | None = None) -> None:
        held = self.seats.get(device, [])
        match what:
            case "check in":
                self.step(DeviceCheckedIn(device, self.now_s))
            case "report" if held:
                self.report(held[-1])
            case "report again" if held:
                for key in held:
                    self.report(key)
            case "spoil" if held:
                self.report(held[-1], code="layout")
            case "drop out" if held:
                number, _, attempt = held[-1]
                self.step(DeviceDroppedOut(device, attempt, DropoutCause.IN_USE, self.now_s, number))
            case "lose":
                self.step(DeviceLost(device, self.now_s))
            case "return":
                self.step(DeviceReturned(device, self.now_s))
            case "average":
                self.step(AggregationFinished(self.state.base_version + 1, self.now_s))
            case "fail":
                self.step(AggregationFailed("no disk", self.now_s))
            case "unreadable" if device in self.state.devices(SeatState.REPORTED):
                if self.state.phase is Phase.COMMITTING:
                    self.unreadable |= {key for key in self.open_keys() if key[1] == device}
                self.step(ReportsUnreadable((device,), self.now_s))
            case "call off":
                self.step(CalledOff("paused", self.now_s))
            case _:
                pass
        self.step(ClockTicked(self.now_s))

    def report(self, key: Key, code: str = "") -> None:
        number, device, attempt = key
        if number == self.state.number or key in self.open_keys():
            self.step(ReportReceived(device, attempt, self.now_s, code, given=number))

    def open_keys(self) -> set[Key]:
        return {(seat.given.round, device, seat.attempt) for device, seat in self.state.seats.items()}

    def step(self, event: Event) -> None:
        before = self.state
        if (before.phase, type(event)) not in TABLE:
            return
        self.state, effects = step(before, event)
        assert self.state.phase in TABLE[before.phase, type(event)].leads_to
        for effect in effects:
            match effect:
                case AssignDevice(device, number, attempt):
                    held = self.seats.setdefault(device, [])
                    if (number, device, attempt) not in held:
                        held.append((number, device, attempt))
                case SendReceipt(device, number, attempt, verdict):
                    self.verdicts.setdefault((number, device, attempt), []).append(verdict)
                case _:
                    pass
        assert self.state.working <= self.state.rules.concurrency
        if self.state.phase in TERMINAL:
            self.used += [
                (seat.given.round, device, seat.attempt)
                for device, seat in self.state.seats.items()
                if seat.state is SeatState.REPORTED
            ]
            if self.state.phase is Phase.COMMITTED:
                assert self.state.reported >= self.state.rules.minimum
            self.go_on()

    def go_on(self) -> None:
        version = self.state.base_version if self.state.version is None else self.state.version
        opened = msgspec.structs.replace(buffer(self.state.number + 1, version, self.now_s), rules=self.state.rules)
        _, self.state, _ = carry(self.state, opened)


@given(
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(0, 2),
    st.lists(st.tuples(HAPPENINGS, st.floats(0, 40)), max_size=80),
)
def test_whatever_happens_each_accepted_report_is_used_once_or_waits(goal, concurrency, max_staleness, happenings):
    story = Story(goal=goal, minimum=min(goal, 2), concurrency=concurrency, max_staleness=max_staleness)
    for happening, span_s in happenings:
        story.now_s += span_s
        story.happen(*happening)
    waiting = {
        (seat.given.round, device, seat.attempt)
        for device, seat in story.state.seats.items()
        if seat.state in {SeatState.REPORTED, SeatState.EARLY}
    }
    assert len(story.used) == len(set(story.used)), "a report was used twice"
    assert not set(story.used) & waiting
    for key, verdicts in story.verdicts.items():
        assert verdicts.count(Verdict.ACCEPTED) <= 1
        if Verdict.ACCEPTED in verdicts:
            assert verdicts[0] is Verdict.ACCEPTED, f"{key} was answered {verdicts}"
            assert Verdict.LATE not in verdicts
    accepted = {key for key, verdicts in story.verdicts.items() if Verdict.ACCEPTED in verdicts}
    assert accepted == set(story.used) | waiting | story.unreadable, "an accepted report was lost"
