"""Several tasks at once on one population, from the driver's side."""

import numpy as np
import pytest

from coordinator.config import TaskSettings
from coordinator.core.round import Phase
from coordinator.inbox import Operated
from coordinator.operations import CreateTask, Refused
from models.manifest import Manifest
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model
from wire.messages import Announcement, Receipt, Verdict
from wire.parameters import weights_from_bytes


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    return lambda **task: World(manifest, tmp_path, **task)


def settings(world: World, name: str = "second", **fields) -> TaskSettings:
    """Those of the file's task, under another name and with changes."""
    of_the_file = world.config.task.settings()
    held = {field: getattr(of_the_file, field) for field in TaskSettings.__struct_fields__}
    return TaskSettings(**{**held, "name": name, **fields})


def operate(world: World, operation) -> bool | Refused:
    answers = []
    world.driver.handle(Operated(operation, "anna", answers.append))
    [answer] = answers
    return answer


def create(world: World, name: str = "second", **fields) -> bool | Refused:
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
    assert announced == [0, 2], "only the file's task goes out to the keyboards"
