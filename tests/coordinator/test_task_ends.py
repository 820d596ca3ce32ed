"""When a task ends, and when its rounds wait: stop rules and schedules."""

import msgspec

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.records.inbox import JobEnded
from nightjar.coordinator.rounds.round import AbandonCause, Phase
from nightjar.coordinator.tasks.schedule import Schedule
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.wire.messages import Rejection, RejectionReason, Verdict
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model
from tests.coordinator.several_tasks import create, report, rounds_of, state_of


def test_a_task_ends_with_its_rounds_and_the_other_goes_on(make_world):
    world = make_world()
    create(world, "second", rounds=1)
    for _ in range(2):
        world.check_in(*"abcd")
        for device in "abcd":
            report(world, device)
        world.work()
    state = state_of(world, "second")
    assert (state.status, state.reason) == (TaskStatus.FINISHED, "1 of 1 rounds is committed")
    assert len(rounds_of(world, "second")) == 1
    assert state_of(world, "keyboard").status is TaskStatus.ACTIVE
    assert len(rounds_of(world, "keyboard")) == 3


def committed_with(world: World, top1: float) -> None:
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    for job in list(world.worker.jobs):
        world.worker.jobs.remove(job)
        done = do_job(job, world.artifacts, world.private, lambda *_: VersionMetrics(top1, 2 * top1, 3.0))
        world.driver.handle(JobEnded(done))


def test_a_task_ends_when_its_recall_is_reached_or_does_not_grow(tmp_path):
    (tmp_path / "text.tsv").write_text("a\tb\n")
    manifest = write_model(tmp_path)

    def after(stop: dict[str, float], *recalls: float) -> tuple[TaskStatus, int]:
        world = World(manifest, tmp_path, evaluation_text=tmp_path / "text.tsv", **stop)
        for top1 in recalls:
            committed_with(world, top1)
        return state_of(world, "keyboard").status, len(rounds_of(world, "keyboard"))

    assert after({"target_top1": 0.3}, 0.1, 0.3) == (TaskStatus.FINISHED, 2)
    assert after({"target_top1": 0.3}, 0.1, 0.2) == (TaskStatus.ACTIVE, 3)
    assert after({"no_progress_rounds": 2}, 0.1, 0.1, 0.1) == (TaskStatus.FINISHED, 3)
    assert after({"no_progress_rounds": 2}, 0.1, 0.1, 0.2, 0.15) == (TaskStatus.ACTIVE, 5)


def test_a_finished_task_of_the_file_goes_on_when_the_file_wants_more_rounds(make_world):
    world = make_world(rounds=1)
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    world.work()
    assert state_of(world, "keyboard").status is TaskStatus.FINISHED
    world.start()
    assert list(world.tables.rounds) == [1]
    world.config = msgspec.structs.replace(world.config, task=msgspec.structs.replace(world.config.task, rounds=2))
    world.start()
    assert state_of(world, "keyboard").status is TaskStatus.ACTIVE
    assert world.phase_of(2) is Phase.SELECTION


def test_rounds_keep_the_pause_between_them_and_devices_come_back_after_it(make_world):
    world = make_world(schedule=Schedule(pause_s=500.0))
    world.listen()
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    world.work()
    assert list(world.tables.rounds) == [1]
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert rejection.reason is RejectionReason.NO_TASK
    assert 500.0 <= rejection.retry_after_s < 600.0
    world.tick(499.0)
    assert list(world.tables.rounds) == [1]
    world.tick(1.0)
    assert world.phase_of(2) is Phase.SELECTION


def test_outside_its_hours_a_task_waits_and_a_selection_is_called_off(make_world):
    world = make_world(schedule=Schedule(from_hour=13, to_hour=14))  # the world begins at 13:46:40
    world.listen()
    world.check_in("a")
    world.tick(15 * 60)
    (only,) = rounds_of(world, "keyboard")
    assert (only.cause, only.reason) == (AbandonCause.CALLED_OFF, "the task's hours are over")
    world.check_in("a")
    assert world.transport.to("a", Rejection)[-1].retry_after_s > 22 * 3600
    world.tick(23 * 3600)
    assert rounds_of(world, "keyboard")[-1].phase is Phase.SELECTION


def test_devices_at_work_when_the_hours_end_may_finish(make_world):
    world = make_world(schedule=Schedule(from_hour=13, to_hour=14), report_deadline_s=3600.0)
    world.listen()
    world.check_in("a", "b")
    world.tick(15 * 60)
    assert [report(world, device) for device in "ab"] == [Verdict.ACCEPTED] * 2
    world.work()
    assert [state.phase for state in rounds_of(world, "keyboard")] == [Phase.COMMITTED]
