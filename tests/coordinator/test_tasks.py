"""Several tasks at once on one population, from the driver's side."""

import msgspec
import numpy as np
import pytest

from coordinator.engine.aggregation import do_job
from coordinator.engine.inbox import JobEnded, Operated
from coordinator.engine.jobs import JobFailed, VersionMetrics
from coordinator.learning import device_metrics as federated
from coordinator.learning.strategies import Aggregation
from coordinator.rounds.admission import Eligibility, Variant
from coordinator.rounds.round import AbandonCause, Phase
from coordinator.tasks.operations import CreateTask, OperationRefused, PauseTask, ResumeTask, StopTask
from coordinator.tasks.retry import REFUSED_RETRY_S
from coordinator.tasks.schedule import Schedule
from coordinator.tasks.settings import CodecConfig, PlanConfig, SourceConfig, StrategyConfig, TaskSettings
from coordinator.tasks.task import TaskStatus
from models.manifest import Manifest
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import Killed, World
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model
from wire import frame
from wire.errors import ConfigError
from wire.identifiers import DeviceId
from wire.messages import Announcement, Assignment, CheckIn, Receipt, Rejection, RejectionReason, Verdict, Work
from wire.parameters import weights_from_bytes
from wire.shares import share_of


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    return lambda **task: World(manifest, tmp_path, **task)


def settings(world: World, name: str = "second", **fields) -> TaskSettings:
    """Those of the file's task, under another name and with changes."""
    of_the_file = world.config.task.settings()
    held = {field: getattr(of_the_file, field) for field in TaskSettings.__struct_fields__}
    return TaskSettings(**{**held, "name": name, **fields})


def operate(world: World, operation) -> bool | OperationRefused:
    answers = []
    world.driver.handle(Operated(operation, "anna", answers.append))
    [answer] = answers
    return answer


def create(world: World, name: str = "second", **fields) -> bool | OperationRefused:
    return operate(world, CreateTask(settings(world, name, **fields)))


def report(world: World, device: str, value: float = 0.01) -> Verdict:
    data = report_frame(world.assignment(device), np.full(LAYOUT.size, value, np.float32), LAYOUT)
    world.receive(device, "report", data)
    return world.transport.to(device, Receipt)[-1].verdict


def weights(world: World, task: str) -> np.ndarray:
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.current_version(task).manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), manifest.layout)


def state_of(world: World, task: str):
    with world.repository.transaction() as tx:
        return tx.task(task).state


def rounds_of(world: World, task: str) -> list:
    return [state for state in world.tables.rounds.values() if state.task == task]


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


# Stop rules


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


# Schedules


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


# Eligibility and variants


@pytest.mark.parametrize(
    "wanted",
    [
        Eligibility(minimum_agent_version="9.0.0"),
        Eligibility(emulated=True),
    ],
)
def test_a_device_that_one_task_does_not_want_is_given_the_other(make_world, wanted):
    world = make_world(goal=4, minimum=4)
    create(world, "second", goal=4, minimum=4, eligibility=wanted)
    world.check_in(*"abc")
    assert [len(state.pool) for state in world.tables.rounds.values()] == [3, 0]


def test_who_fits_no_task_is_told_why_and_not_soon_again(make_world):
    world = make_world(eligibility=Eligibility(emulated=True))
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert (rejection.reason, rejection.detail) == (RejectionReason.NO_TASK, "only emulated phones are wanted")
    assert rejection.retry_after_s >= 900


def test_variants_divide_the_devices_by_their_names_and_leave_the_rest(make_world):
    world = make_world(goal=1000, minimum=1000, eligibility=Eligibility(emulated=True))
    for name, share in (("warm", 0.25), ("cold", 0.5)):
        variant = Variant(experiment="rates", share=share)
        assert create(world, name, variant=variant, eligibility=Eligibility()) is True
    assert isinstance(create(world, "third", variant=Variant(experiment="rates", share=0.5)), OperationRefused)
    devices = [f"device-{number}" for number in range(200)]
    world.check_in(*devices)
    pools = {task: set(rounds_of(world, task)[-1].pool) for task in ("warm", "cold")}
    place = {device: share_of("rates", DeviceId(device)) for device in devices}
    assert pools["warm"] == {device for device in devices if place[device] < 0.25}
    assert pools["cold"] == {device for device in devices if 0.25 <= place[device] < 0.75}
    assert world.transport.to(max(place, key=place.get), Rejection), "this one is in neither"


def test_the_files_task_takes_what_the_other_variants_leave_and_keeps_its_place(make_world):
    world = make_world(variant=Variant(experiment="rates", share=0.5))
    create(world, "second", variant=Variant(experiment="rates", share=0.5))
    assert (state_of(world, "keyboard").slot, state_of(world, "second").slot) == (0.0, 0.5)
    world.start()
    assert state_of(world, "keyboard").slot == 0.0
    larger = msgspec.structs.replace(world.config.task, variant=Variant(experiment="rates", share=0.6))
    world.config = msgspec.structs.replace(world.config, task=larger)
    with pytest.raises(ConfigError, match="too few devices of the experiment rates are left"):
        world.start()
    moved = msgspec.structs.replace(world.config.task, name="third", variant=Variant(experiment="rates", share=0.5))
    world.config = msgspec.structs.replace(world.config, task=moved)
    with pytest.raises(ConfigError, match="too few"):
        world.start()


# Evaluation


def figures(world: World, device: str, top1: int = 3, **changes) -> Verdict:
    asked = world.assignment(device)
    fields = {
        "round": asked.round,
        "attempt": asked.attempt,
        "codec": frame.NO_UPDATE,
        "layout": LAYOUT.fingerprint,
        "version": asked.version,
        "num_examples": 12,
        "steps": 0,
        "loss": 2.0,
        "seconds": 0.1,
        "payload": b"",
        "evaluation": frame.LocalEvaluation(10, top1, 6, top1, 6, 2.0, 2.0),
    }
    world.receive(device, "report", frame.encode_report(frame.Report(**(fields | changes))))
    return world.transport.to(device, Receipt)[-1].verdict


def evaluating(world: World, **fields) -> None:
    operate(world, PauseTask("keyboard", "only the evaluation matters here"))
    assert create(world, "look", kind=Work.EVALUATE, **fields) is True


def able(world: World, *devices: str) -> None:
    for device in devices:
        world.say(device, CheckIn(agent_version="0.1.0", runtime="none", examples=9, kinds=("train", "evaluate")))


def test_an_evaluation_makes_figures_of_a_version_and_no_version(make_world):
    world = make_world()
    evaluating(world, rounds=1)
    able(world, "a", "b")
    asked = world.assignment("a")
    assert (asked.work, asked.version, asked.task) == (Work.EVALUATE, 0, "look")
    assert [figures(world, "a", 2), figures(world, "b", 4)] == [Verdict.ACCEPTED] * 2
    world.work()
    (only,) = rounds_of(world, "look")
    assert (only.phase, only.version, only.base_version) == (Phase.COMMITTED, None, 0)
    assert state_of(world, "look").status is TaskStatus.FINISHED
    assert list(world.tables.versions) == [0]
    with world.repository.transaction() as tx:
        found = federated.figures(tx.federated(0))
    assert (found.devices, found.counted, found.top1_before.mean) == (2, 20, 0.3)
    assert (found.top1_before.p10, found.top1_before.p90) == (0.2, 0.4)
    assert world.tables.frames == {}, "what devices sent is deleted when the round is over"


def test_an_agent_that_cannot_evaluate_is_not_asked_to(make_world):
    world = make_world()
    evaluating(world)
    world.check_in("a")
    assert world.transport.to("a", Rejection)[-1].detail == "this agent cannot evaluate"


@pytest.mark.parametrize(
    "changes",
    [{"evaluation": None}, {"codec": 1}, {"payload": b"\x00" * 4}, {"version": 3}, {"layout": "0" * 16}],
)
def test_figures_that_were_not_asked_for_are_refused(make_world, changes):
    world = make_world()
    evaluating(world)
    able(world, "a", "b")
    assert figures(world, "a", **changes) is Verdict.INVALID


def test_an_evaluation_follows_its_task_from_version_to_version(make_world):
    world = make_world()
    assert create(world, "look", kind=Work.EVALUATE, eligibility=Eligibility(emulated=True)) is True
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    world.work()
    operate(world, PauseTask("look", "until later"))
    operate(world, ResumeTask("look"))
    assert [state.base_version for state in rounds_of(world, "look")] == [0, 1]


def test_a_round_that_tries_an_older_version_is_held_on_it_after_a_restart(make_world):
    world = make_world()
    create(world, "look", kind=Work.EVALUATE, source=SourceConfig(version=0), eligibility=Eligibility(emulated=True))
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    world.work()
    world.start()
    for device in ("c", "d"):
        message = CheckIn(agent_version="0.1.0", runtime="none", examples=9, kinds=("evaluate",), emulated=True)
        world.say(device, message)
        assert world.transport.to(device, Assignment) or device == "c"
    assert world.assignment("c").version == 0
    assert figures(world, "c") is Verdict.ACCEPTED


def test_a_round_that_ends_does_not_take_its_version_from_another_that_tries_the_same(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        report(world, device)
    world.work()
    world.listen()
    operate(world, PauseTask("keyboard", "only the evaluations matter here"))
    old = SourceConfig(version=0)
    create(world, "one", kind=Work.EVALUATE, source=old, eligibility=Eligibility(emulated=True))
    create(world, "two", kind=Work.EVALUATE, source=old, goal=2, minimum=1)
    able(world, "c")
    operate(world, StopTask("one", "enough"))
    world.tick(61.0)
    assert (world.assignment("c").task, world.assignment("c").version) == ("two", 0)


def test_killed_in_the_end_of_an_evaluation_its_figures_count_once(make_world):
    world = make_world()
    evaluating(world, rounds=1)
    able(world, "a", "b")
    figures(world, "a")
    figures(world, "b")
    world.start()
    world.work()
    with world.repository.transaction() as tx:
        assert tx.federated(0).devices == 2
    assert state_of(world, "look").status is TaskStatus.FINISHED


def test_a_device_takes_another_task_as_soon_as_its_report_is_in(make_world):
    world = make_world(goal=2, minimum=2)
    create(world, "second", goal=2, minimum=2, minimum_examples=20)
    world.check_in("a", "b")
    report(world, "a")
    world.check_in("a", examples=30)
    assert rounds_of(world, "second")[-1].pool == ("a",)
    assert report(world, "b") is Verdict.ACCEPTED
