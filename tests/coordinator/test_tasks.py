"""Several tasks at once on one population, from the driver's side."""

import numpy as np
import pytest

from nightjar.coordinator.learning.strategies import Aggregation
from nightjar.coordinator.records.inbox import JobEnded, Operated
from nightjar.coordinator.records.jobs import JobFailed
from nightjar.coordinator.rounds.eligibility import Eligibility, Variant
from nightjar.coordinator.rounds.round import AbandonCause, Phase
from nightjar.coordinator.tasks.operations import CreateTask, OperationRefused, PauseTask, ResumeTask, StopTask
from nightjar.coordinator.tasks.retry import REFUSED_RETRY_S
from nightjar.coordinator.tasks.settings import CodecConfig, PlanConfig, SourceConfig, StrategyConfig
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Announcement, Assignment, Rejection, Verdict, Work
from nightjar.wire.shares import share_of
from tests.coordinator.fakes import Killed
from tests.coordinator.model_folder import INITIAL
from tests.coordinator.several_tasks import create, operate, report, rounds_of, settings, state_of, weights


def test_two_tasks_are_held_at_once_and_each_makes_versions_of_its_own(make_world):
    world = make_world()
    assert create(world, "second") is True
    assert [(state.number, state.task, state.base_version) for state in world.tables.rounds.values()] == [
        (1, "keyboard", 0),
        (2, "second", 1),
    ]
    world.check_in("a", "b", "c", "d")
    by_task = {task: [d for d in "abcd" if world.assignment(d).task == task] for task in ("keyboard", "second")}
    assert [len(devices) for devices in by_task.values()] == [2, 2]
    for value, devices in zip((0.01, 0.03), by_task.values(), strict=True):
        assert [report(world, device, value) for device in devices] == [Verdict.ACCEPTED] * 2
    world.work()
    assert [world.phase_of(number) for number in (1, 2)] == [Phase.COMMITTED] * 2
    np.testing.assert_allclose(weights(world, "keyboard"), INITIAL + 0.01, rtol=1e-5)
    np.testing.assert_allclose(weights(world, "second"), INITIAL + 0.03, rtol=1e-5)
    versions = world.tables.versions
    assert [(number, record.task) for number, record in versions.items()] == [
        (0, "keyboard"),
        (1, "second"),
        (2, "keyboard"),
        (3, "second"),
    ]
    assert versions[1].lineage.parent == 0
    announced = [m.version for _, m, _ in world.transport.sent if isinstance(m, Announcement)]
    assert sorted(set(announced)) == [0, 2], "only the file's task goes out to the keyboards"


def test_a_device_that_waits_or_works_for_one_task_is_offered_nothing_else(make_world):
    world = make_world(goal=3, minimum=3)
    create(world, "second", goal=1, minimum=1)
    world.check_in("a")
    (pool,) = [state.pool for state in world.tables.rounds.values() if state.pool] or [()]
    world.check_in("a", "a")
    held = [state for state in world.tables.rounds.values() if DeviceId("a") in (*state.pool, *state.seats)]
    assert len(held) == 1
    assert len({order.round for order in world.transport.to("a", Assignment)}) <= 1, "the same one again"
    assert pool in {(), ("a",)}


def test_devices_go_where_most_are_lacking(make_world):
    world = make_world(goal=4, minimum=1)
    create(world, "second", goal=4, minimum=1)
    world.check_in(*"abcdef")
    assert [len(state.pool) for state in world.tables.rounds.values()] == [3, 3]


def test_too_few_devices_for_two_tasks_do_not_wait_for_each_other(make_world):
    world = make_world(goal=4, minimum=4)
    create(world, "second", goal=4, minimum=4)
    world.check_in(*"abcdef")
    assert [state.phase for state in world.tables.rounds.values()] == [Phase.REPORTING, Phase.SELECTION]
    assert len(rounds_of(world, "second")[-1].pool) == 2


def test_who_waited_for_a_task_that_is_paused_comes_back_soon_for_another(make_world):
    world = make_world()
    create(world, "second")
    world.check_in("a")
    waited_for = next(name for name in ("keyboard", "second") if rounds_of(world, name)[-1].pool)
    operate(world, PauseTask(waited_for, "a look"))
    rejection = world.transport.to("a", Rejection)[-1]
    assert "a look" in rejection.detail
    assert rejection.retry_after_s < REFUSED_RETRY_S, "the other task is open now"


def test_a_task_that_is_resumed_calls_back_whom_the_pause_sent_away(make_world):
    world = make_world()
    world.check_in("a")

    def recall():
        return [message.recall for _, message, _ in world.transport.sent if isinstance(message, Announcement)][-1]

    before = recall()
    operate(world, PauseTask("keyboard", "a look"))
    world.clock.time_s += 30.0
    operate(world, ResumeTask("keyboard"))
    assert recall() > before
    resumed = recall()
    world.clock.time_s += 30.0
    create(world, "second")
    assert recall() > resumed, "a new task wants them, too"


def test_a_phone_that_waits_for_a_task_that_cannot_begin_serves_one_that_can(make_world):
    world = make_world(goal=2, minimum=2)
    one = next(f"d{n}" for n in range(99) if share_of("rates", DeviceId(f"d{n}")) < 0.5)
    other = next(f"d{n}" for n in range(99) if share_of("rates", DeviceId(f"d{n}")) >= 0.5)
    operate(world, PauseTask("keyboard", "a look"))
    create(world, "half", goal=2, minimum=2, variant=Variant(experiment="rates", share=0.5))
    world.check_in(one)
    assert rounds_of(world, "half")[-1].pool == (one,)
    operate(world, ResumeTask("keyboard"))
    world.check_in(other)
    assert {world.assignment(device).task for device in (one, other)} == {"keyboard"}
    assert rounds_of(world, "half")[-1].pool == ()


def test_a_task_paused_in_mid_round_lets_its_devices_finish_and_the_other_goes_on(make_world):
    world = make_world()
    create(world, "second")
    world.check_in("a", "b", "c", "d")
    assert operate(world, PauseTask("second", "night")) is True
    for device in "abcd":
        assert report(world, device) is Verdict.ACCEPTED
    world.work()
    assert [state.phase for state in rounds_of(world, "second")] == [Phase.COMMITTED]
    assert [state.phase for state in rounds_of(world, "keyboard")] == [Phase.COMMITTED, Phase.SELECTION]
    assert operate(world, ResumeTask("second")) is True
    assert rounds_of(world, "second")[-1].phase is Phase.SELECTION


def test_a_task_stopped_in_mid_round_lets_its_devices_finish_and_never_begins_again(make_world):
    world = make_world()
    create(world, "second")
    world.check_in("a", "b", "c", "d")
    operate(world, StopTask("second", "it was a mistake"))
    mine = [device for device in "abcd" if world.assignment(device).task == "second"]
    assert [report(world, device) for device in mine] == [Verdict.ACCEPTED] * 2
    world.work()
    state = state_of(world, "second")
    assert (state.status, state.reason, state.who) == (TaskStatus.STOPPED, "it was a mistake", "anna")
    assert [one.phase for one in rounds_of(world, "second")] == [Phase.COMMITTED]
    assert operate(world, ResumeTask("second")) == OperationRefused(
        "the task second is stopped: it was a mistake; make a new one"
    )
    assert operate(world, StopTask("second", "again")) is False
    world.start()
    assert len(rounds_of(world, "second")) == 1
    assert report(world, mine[0]) is Verdict.DUPLICATE, "its devices are answered for ever"


def test_a_task_that_waits_for_devices_is_called_off_when_it_is_stopped(make_world):
    world = make_world()
    create(world, "second", eligibility=Eligibility(emulated=True))
    operate(world, StopTask("second", "enough"))
    (only,) = rounds_of(world, "second")
    assert (only.phase, only.cause) == (Phase.ABANDONED, AbandonCause.CALLED_OFF)


def test_what_there_is_no_task_of_is_refused(make_world):
    world = make_world()
    assert operate(world, PauseTask("third", "x")) == OperationRefused("there is no task third")
    assert isinstance(create(world, "keyboard"), OperationRefused)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"minimum": 5}, "minimum"),
        ({"source": SourceConfig(version=7)}, "version 7"),
        ({"source": SourceConfig(task="nobody")}, "nobody"),
        ({"target_top1": 0.5}, "evaluation_text"),
        ({"codec": CodecConfig(), "strategy": StrategyConfig(aggregation=Aggregation.MEDIAN)}, "would not learn"),
        ({"kind": Work.EVALUATE, "plan": PlanConfig(evaluation_share=0.0)}, "evaluation_share"),
    ],
)
def test_a_task_that_cannot_be_is_refused_with_the_reason_and_changes_nothing(make_world, fields, word):
    world = make_world()
    before = (dict(world.tables.tasks), dict(world.tables.rounds), dict(world.tables.versions))
    refused = create(world, "second", **fields)
    assert isinstance(refused, OperationRefused)
    assert word in refused.reason
    assert (world.tables.tasks, world.tables.rounds, world.tables.versions) == before


def test_a_kill_at_any_touch_leaves_a_task_with_its_version_and_round_or_nothing(make_world):
    touches = 0
    while True:
        world, left = make_world(), touches

        def on_touch() -> None:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1

        asked = CreateTask(settings(world))
        world.touch_with(on_touch)
        try:
            world.driver.handle(Operated(asked, "anna"))
            return
        except Killed:
            world.touch_with(lambda: None)
            world.start()
            made = "second" in world.tables.tasks
            assert made == bool(rounds_of(world, "second"))
            assert made == (1 in world.tables.versions)
            assert made == any(entry.action == "create-task" for entry in world.tables.audit)
        touches += 1


def test_both_rounds_go_on_where_they_were_after_a_restart(make_world):
    world = make_world()
    create(world, "second")
    world.check_in("a", "b", "c", "d")
    before = dict(world.tables.rounds)
    world.start()
    assert world.tables.rounds == before
    for device in "abcd":
        assert report(world, device) is Verdict.ACCEPTED
    world.start()
    world.work()
    assert [world.phase_of(number) for number in (1, 2)] == [Phase.COMMITTED] * 2


def test_a_round_whose_averaging_fails_costs_only_its_own_task(make_world):
    world = make_world()
    create(world, "second")
    world.check_in("a", "b", "c", "d")
    for device in "abcd":
        report(world, device)
    (broken,) = [job for job in world.worker.jobs if job.round == 2]
    world.worker.jobs.remove(broken)
    world.driver.handle(JobEnded(JobFailed("no room", round=2)))
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    assert world.phase_of(2) is Phase.ABANDONED


@pytest.mark.parametrize("status", TaskStatus)
def test_killed_in_status_a_task_is_what_it_was_and_the_other_goes_on(make_world, status):
    world = make_world()
    create(world, "second", rounds=1 if status is TaskStatus.FINISHED else 0)
    match status:
        case TaskStatus.PAUSED:
            operate(world, PauseTask("second", "night"))
        case TaskStatus.STOPPED:
            operate(world, StopTask("second", "enough"))
        case TaskStatus.FINISHED:
            world.check_in(*"abcd")
            for device in "abcd":
                report(world, device)
            world.work()
        case TaskStatus.ACTIVE:
            pass
    before, rounds = state_of(world, "second"), len(rounds_of(world, "second"))
    assert before.status is status
    world.start()
    assert (state_of(world, "second"), len(rounds_of(world, "second"))) == (before, rounds)
    for name in "efgh":
        world.check_in(name)
    assert Phase.REPORTING in {state.phase for state in rounds_of(world, "keyboard")}


def test_a_device_takes_another_task_as_soon_as_its_report_is_in(make_world):
    world = make_world(goal=2, minimum=2)
    create(world, "second", goal=2, minimum=2, minimum_examples=20)
    world.check_in("a", "b")
    report(world, "a")
    world.check_in("a", examples=30)
    assert rounds_of(world, "second")[-1].pool == ("a",)
    assert report(world, "b") is Verdict.ACCEPTED
