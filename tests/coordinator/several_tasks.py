"""Operates several tasks of one world."""

import numpy as np

from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.tasks.operations import CreateTask, OperationRefused
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.models.manifest import Manifest
from nightjar.wire.messages import Receipt, Verdict
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT


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
