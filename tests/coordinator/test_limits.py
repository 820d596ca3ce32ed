"""What no task goes below, whoever makes it: ``[limits]`` of the configuration."""

import msgspec
import pytest

from nightjar.coordinator.config_file import disagreements
from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.tasks.operations import CreateTask, OperationRefused, ResumeTask
from nightjar.coordinator.tasks.settings import CodecConfig, PlanConfig, TaskSettings
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire.limits import NONE, Limits
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model

ONE_GRADIENT = TaskSettings(
    name="probe",
    goal=1,
    minimum=1,
    over_selection=1.0,
    codec=CodecConfig(name="dense-f32"),
    plan=PlanConfig(max_steps=1, clip_norm=1e9),
)
"""The task by which an operator got one device's gradient to 3.9e-8."""


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    fits = {"goal": 20, "minimum": 10, "codec": CodecConfig()}
    return lambda **fields: World(manifest, tmp_path, **{**fits, "limits": Limits(), **fields})


def ask(world, operation):
    answers = []
    world.driver.handle(Operated(operation, "ann", answers.append))
    return answers[0]


def test_a_task_that_asks_for_one_devices_gradient_is_not_made(make_world):
    world = make_world()
    answer = ask(world, CreateTask(ONE_GRADIENT))
    assert isinstance(answer, OperationRefused)
    for fault in ("minimum: expected at least 10, got 1", "density of at most 0.1, got 1 (dense-f32)"):
        assert fault in answer.reason
    assert "probe" not in world.tables.tasks
    world.check_in("phone")
    world.tick(61)
    assert world.transport.to("phone") == [] or not hasattr(world.transport.to("phone")[-1], "plan")


def test_a_limit_of_steps_holds_for_plans(make_world):
    world = make_world(limits=Limits(steps=5))
    wanted = TaskSettings(name="short", plan=PlanConfig(max_steps=4))
    assert "plan.max_steps: expected at least 5, got 4" in ask(world, CreateTask(wanted)).reason


def test_a_task_from_before_the_limits_is_held_and_not_resumed_and_goes_on_when_they_allow_it(make_world):
    world = make_world(limits=NONE)
    assert ask(world, CreateTask(ONE_GRADIENT)) is True
    configured = world.config
    world.config = msgspec.structs.replace(configured, limits=Limits())
    world.start()
    held = world.tables.tasks["probe"].state
    assert held.status is TaskStatus.PAUSED
    assert "outside [limits]: minimum: expected at least 10, got 1" in held.reason
    assert "[limits]" in ask(world, ResumeTask("probe")).reason
    assert world.tables.tasks["keyboard"].state.status is TaskStatus.ACTIVE
    world.config = configured
    world.start()
    assert ask(world, ResumeTask("probe")) is True


def test_the_files_own_task_keeps_to_the_files_limits(make_world):
    world = make_world(goal=2, minimum=2)
    assert [fault for fault in disagreements(world.config) if fault.startswith("task.minimum")]
    household = msgspec.structs.replace(world.config, limits=Limits(household=True))
    assert [fault for fault in disagreements(household) if fault.startswith("task.")] == []
