"""Tasks that evaluate a version on devices and make none."""

import pytest

from nightjar.coordinator.learning import device_metrics as federated
from nightjar.coordinator.rounds.eligibility import Eligibility
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.operations import PauseTask, ResumeTask, StopTask
from nightjar.coordinator.tasks.settings import SourceConfig
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire import frame
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.messages import Assignment, CheckIn, Receipt, Rejection, Verdict, Work
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT
from tests.coordinator.several_tasks import create, operate, report, rounds_of, state_of


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
        world.say(
            device,
            CheckIn(agent_version="0.1.0", runtime="none", examples=9, kinds=("train", "evaluate"), codecs=to_name()),
        )


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
