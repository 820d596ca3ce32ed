import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.schedule import StopRule
from nightjar.coordinator.tasks.task import (
    OVER,
    TABLE,
    Paused,
    PrivacySpent,
    Restored,
    Resumed,
    RoundAbandoned,
    RoundCommitted,
    RuleRead,
    Task,
    TaskStatus,
    TaskStopped,
    enough,
    step,
    without_best,
)
from nightjar.wire.errors import IllegalEvent

ACTIVE = Task(name="keyboard", number=1, created_s=5.0)
ENDLESS = StopRule()
EVENTS = {
    RoundCommitted: RoundCommitted(9.0, ENDLESS, 0.1),
    RoundAbandoned: RoundAbandoned(9.0, nobody=True),
    Paused: Paused(9.0, "night", "anna"),
    Resumed: Resumed(9.0),
    TaskStopped: TaskStopped(9.0, "enough", "anna"),
    RuleRead: RuleRead(9.0, ENDLESS),
    PrivacySpent: PrivacySpent(9.0, ENDLESS),
    Restored: Restored(9.0, 0, 7),
}


def in_status(status: TaskStatus) -> Task:
    match status:
        case TaskStatus.ACTIVE:
            return ACTIVE
        case TaskStatus.PAUSED:
            return step(ACTIVE, EVENTS[Paused])
        case TaskStatus.STOPPED:
            return step(ACTIVE, EVENTS[TaskStopped])
        case TaskStatus.FINISHED:
            return step(ACTIVE, RoundCommitted(9.0, StopRule(rounds=1)))


@pytest.mark.parametrize(("status", "kind"), list(itertools.product(TaskStatus, EVENTS)))
def test_every_pair_is_legal_or_raises_and_changes_nothing(status, kind):
    before = in_status(status)
    assert before.status is status
    found = TABLE.get((status, kind))
    if found is None:
        with pytest.raises(IllegalEvent, match=f"task keyboard, {status.value}"):
            step(before, EVENTS[kind])
        assert before == in_status(status)
    else:
        assert step(before, EVENTS[kind]).status in found.leads_to


def test_a_pause_says_why_by_whom_and_since_when_and_ends_without_a_trace():
    paused = in_status(TaskStatus.PAUSED)
    assert (paused.reason, paused.who, paused.since_s) == ("night", "anna", 9.0)
    again = step(paused, Resumed(20.0))
    assert (again.status, again.reason, again.who, again.since_s) == (TaskStatus.ACTIVE, "", "", 20.0)


def test_who_resumes_a_task_does_not_wait_for_the_pause_between_rounds():
    rested = step(ACTIVE, RoundAbandoned(100.0, nobody=True))
    assert (rested.closed_at_s, rested.empty) == (100.0, 1)
    resumed = step(step(rested, EVENTS[Paused]), Resumed(101.0))
    assert (resumed.closed_at_s, resumed.empty) == (None, 0)


def test_empty_rounds_are_counted_until_somebody_comes():
    state = ACTIVE
    for nobody, empty in ((True, 1), (True, 2), (False, 0), (True, 1)):
        state = step(state, RoundAbandoned(9.0, nobody=nobody))
        assert state.empty == empty
    assert step(state, EVENTS[RoundCommitted]).empty == 0


def after(rule: StopRule, *recalls: float | None) -> Task:
    state = ACTIVE
    for top1 in recalls:
        state = step(state, RoundCommitted(9.0, rule, top1))
    return state


@pytest.mark.parametrize(
    ("rule", "recalls", "reason"),
    [
        (StopRule(rounds=2), (None, None), "2 of 2 rounds are committed"),
        (StopRule(target_top1=0.2), (0.1, 0.25), "its top-1 share reached 0.2500, and 0.2 was wanted"),
        (StopRule(no_progress_rounds=2), (0.2, 0.2, 0.1), "its top-1 share did not grow for 2 rounds"),
    ],
)
def test_a_task_that_did_what_it_was_made_for_is_finished_and_says_so(rule, recalls, reason):
    ended = after(rule, *recalls)
    assert (ended.status, ended.reason, ended.who) == (TaskStatus.FINISHED, reason, "")
    assert after(rule, *recalls[:-1]).status is TaskStatus.ACTIVE


def test_a_version_that_was_not_measured_is_no_standstill():
    assert after(StopRule(no_progress_rounds=1), None, None, 0.1).status is TaskStatus.ACTIVE


def test_a_changed_rule_wakes_a_finished_task_or_ends_an_active_one():
    finished = in_status(TaskStatus.FINISHED)
    assert step(finished, RuleRead(30.0, StopRule(rounds=1))).status is TaskStatus.FINISHED
    woken = step(finished, RuleRead(30.0, StopRule(rounds=2)))
    assert (woken.status, woken.reason) == (TaskStatus.ACTIVE, "")
    assert step(woken, RuleRead(31.0, StopRule(rounds=1))).status is TaskStatus.FINISHED
    assert step(in_status(TaskStatus.STOPPED), RuleRead(31.0, ENDLESS)) == in_status(TaskStatus.STOPPED)


def test_a_paused_task_whose_last_round_was_enough_is_finished():
    paused = in_status(TaskStatus.PAUSED)
    assert step(paused, RoundCommitted(9.0, StopRule(rounds=1))).status is TaskStatus.FINISHED


@given(st.lists(st.sampled_from(list(EVENTS))), st.integers(0, 4))
def test_whatever_happens_committed_rounds_are_counted_and_a_stop_is_for_good(kinds, rounds):
    state, committed, stopped = ACTIVE, 0, False
    rule = StopRule(rounds=rounds)
    for kind in kinds:
        event = EVENTS[kind]
        if kind in {RoundCommitted, RuleRead}:
            event = kind(9.0, rule)
        if kind in {PrivacySpent, Restored}:
            continue  # only tasks with noise end so
        try:
            state = step(state, event)
        except IllegalEvent:
            continue
        committed += kind is RoundCommitted
        stopped = stopped or kind is TaskStopped
        assert state.committed == committed
        assert (state.status is TaskStatus.STOPPED) == stopped
        if state.status is TaskStatus.FINISHED:
            assert enough(state, rule)
        assert bool(state.reason) == (state.status is not TaskStatus.ACTIVE)
    assert {status for status in TaskStatus if status in OVER} == {TaskStatus.STOPPED, TaskStatus.FINISHED}
    assert tasks.TABLE is TABLE


def rounds(patience: int, *committed: tuple[float | None, int | None]) -> Task:
    """A task after rounds that each have the share on held-out text and the announced version."""
    state = ACTIVE
    for top1, announced in committed:
        state = step(state, RoundCommitted(9.0, StopRule(patience=patience), top1, announced, "figures"))
    return state


def test_a_task_pauses_itself_after_so_many_rounds_in_which_no_version_was_announced():
    assert rounds(2, (0.1, 0), (0.2, 0), (0.3, 1), (0.1, 1)).status is TaskStatus.ACTIVE
    paused = rounds(2, (0.1, 0), (0.2, 0), (0.3, 0))
    assert (paused.status, paused.who) == (TaskStatus.PAUSED, "gate")
    assert paused.reason == "no version was announced in the last 2 rounds: figures"
    again = step(paused, Resumed(20.0))
    assert (again.status, again.without_gain) == (TaskStatus.ACTIVE, 0)


def test_where_devices_do_not_measure_the_best_share_on_held_out_text_counts():
    assert rounds(2, (0.1, None), (0.1, None)).status is TaskStatus.ACTIVE
    paused = rounds(2, (0.1, None), (0.1, None), (0.05, None))
    assert paused.reason == "no version was the best on the held-out text in the last 2 rounds: figures"


def test_a_round_of_which_nothing_is_known_is_no_standstill():
    assert rounds(1, (None, None), (None, None), (None, None)).without_gain == 0
    assert rounds(0, *[(0.1, 0)] * 9).status is TaskStatus.ACTIVE


def test_a_task_that_an_operator_paused_keeps_the_operators_reason():
    paused = step(ACTIVE, EVENTS[Paused])
    after_round = step(paused, RoundCommitted(9.0, StopRule(patience=1), 0.1, 0))
    assert step(after_round, RoundCommitted(9.0, StopRule(patience=1), 0.1, 0)).reason == "night"


@pytest.mark.parametrize("status", TaskStatus)
def test_a_best_share_on_another_text_is_forgotten_unless_the_task_is_over(status):
    before = msgspec.structs.replace(in_status(status), best_top1=0.3, since_best=7)
    after = without_best(before)
    assert (after.best_top1, after.since_best) == ((0.3, 7) if status in OVER else (None, 0))
    assert after.status is status
