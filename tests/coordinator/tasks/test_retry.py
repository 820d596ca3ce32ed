import numpy as np
import pytest

from nightjar.coordinator.rounds import buffer
from nightjar.coordinator.rounds.pace_steering import Rhythm
from nightjar.coordinator.rounds.round import open_round
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.retry import NO_TASK_RETRY_S, REFUSED_RETRY_S, recall, retry_after_s, steering_of
from nightjar.coordinator.tasks.schedule import Schedule
from nightjar.coordinator.tasks.settings import Mode, TaskSettings
from nightjar.coordinator.tasks.task import Task, TaskStatus
from nightjar.wire.messages import RejectionReason

NOW_S = 1_000_000.0
NEVER = Schedule(pause_s=7200.0)


def record(name, status=TaskStatus.ACTIVE, **settings):
    state = Task(name=name, number=1, created_s=0.0, status=status, closed_at_s=NOW_S, since_s=NOW_S - len(name))
    return TaskRecord(state=state, settings=TaskSettings(name=name, retry_after_s=5.0, **settings))


def told_s(*records, opened=(), population=10, usual_round_s=100.0, **rejection):
    """What a device is told without jitter, when the named tasks have rounds in SELECTION."""
    tasks = {each.name: each for each in records}
    rounds = {name: open_round(1, 0, tasks[name].settings.rules(), 1, NOW_S, task=name) for name in opened}
    rhythm = Rhythm(usual_round_s=usual_round_s)
    steering = {each.name: steering_of(each.settings, population, rhythm, NOW_S) for each in records}
    generator = np.random.default_rng(1)
    seconds = retry_after_s(tasks, rounds, steering, NOW_S, generator, **rejection)
    return pytest.approx(seconds, rel=0.11), recall(tasks, rounds, steering)


def test_without_an_active_task_a_paused_one_is_worth_asking_for_sooner():
    stopped, paused = record("a", TaskStatus.STOPPED), record("b", TaskStatus.PAUSED)
    assert told_s(stopped) == (NO_TASK_RETRY_S, 0)
    assert told_s(stopped, paused) == (REFUSED_RETRY_S, 0)


def test_a_device_waits_for_the_first_task_to_open_unless_the_one_that_rejected_it_is_active():
    later, open_now = record("later", schedule=NEVER), record("now")
    assert told_s(later, open_now, opened=["now"])[0] == 5.0
    assert told_s(later, open_now, opened=["now"], task="later")[0] == 7200.0
    paused = record("later", TaskStatus.PAUSED, schedule=NEVER)
    assert told_s(paused, open_now, opened=["now"], task="later")[0] == 5.0


def test_a_device_that_may_come_again_in_three_rounds_waits_for_as_many():
    assert told_s(record("a"), opened=["a"], rounds_later=3)[0] == 300.0


@pytest.mark.parametrize("reason", [RejectionReason.NO_TASK, RejectionReason.TOO_FEW_EXAMPLES])
def test_a_device_that_does_not_fit_an_open_round_waits_longer(reason):
    assert told_s(record("a"), opened=["a"], task="a", reason=reason)[0] == REFUSED_RETRY_S


def test_a_device_waits_for_the_end_of_a_buffer_that_it_has_reported_into_but_not_for_a_free_seat():
    task = record("a", mode=Mode.BUFFERED, concurrency=30, goal=10)
    opened = buffer.opened(open_round(1, 0, task.settings.rules(), 1, NOW_S, task="a"), NOW_S)
    steering = {"a": steering_of(task.settings, 10, Rhythm(usual_round_s=100.0), NOW_S)}

    def seconds(**rejection):
        generator = np.random.default_rng(1)
        return retry_after_s({"a": task}, {"a": opened}, steering, NOW_S, generator, **rejection)

    assert seconds() == pytest.approx(100.0, rel=0.11)
    assert seconds(task="a", reason=RejectionReason.ROUND_IN_PROGRESS) == pytest.approx(5.0, rel=0.11)
    assert seconds(task="a", reason=RejectionReason.ROUND_IN_PROGRESS, rounds_later=1) == pytest.approx(100.0, rel=0.11)


def test_a_large_population_arrives_as_fast_as_seats_of_a_buffer_become_free():
    task = record("a", mode=Mode.BUFFERED, concurrency=30, goal=10, selection_deadline_s=600.0)
    spans = [
        steering_of(task.settings, 10**6, Rhythm(usual_round_s=usual_s), NOW_S).selection_deadline_s
        for usual_s in (0.0, 20.0, 1000.0)
    ]
    assert spans == [600.0, 60.0, 600.0]


def test_devices_are_recalled_for_the_newest_task_if_its_round_needs_all_of_them():
    tasks = record("a"), record("bb", status=TaskStatus.PAUSED), record("ccc")
    assert told_s(*tasks, opened=["a", "ccc"])[1] == 1000 * int(NOW_S - 1)
    assert told_s(*tasks, opened=["ccc"])[1] == 0
    assert told_s(*tasks, opened=["a", "ccc"], population=10**6)[1] == 0
