"""Real agents without a model, many in one process: ``python -m simulation.phones SETTING.json``.

Everything but the training is real: driver, database, broker connection, downloads, codec, outbox. So a round's cost
without its training can be measured. Each agent has its threads, as it has on its device.
"""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from edge_agent.core.eligibility import Answer, Condition, Reading, Readings
from edge_agent.driver import Driver, Pace, Ports
from edge_agent.ports import Evaluation, Item, Model, TrainStep
from edge_agent.session import Desk, in_this_process
from edge_agent.shell import mqtt
from edge_agent.shell.clock import SystemClock
from edge_agent.shell.database import Caps, Database
from edge_agent.shell.http import Downloader
from edge_agent.shell.logs import set_up
from edge_agent.shell.model_files import ModelFiles
from edge_agent.shell.worker import ThreadWorker
from edge_agent.uplink import Identity
from wire import messages, topics
from wire.identifiers import DeviceId, Population
from wire.messages import Status
from wire.parameters import Vector

TEXTS = ("the cat sat", "a dog ran")
CAPS = Caps(1000, 100_000, 1e9)
GIGABYTE = 10**9
SESSION_LIMIT_S = 600.0


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the phones of one process have in common.

    Attributes:
        folder: each has a folder of its name in it.
        names: of the phones.
        population: whose phones they are.
        broker_port: on loopback.
        url: of the coordinator.
        hysteresis_s: how long conditions must hold.
        poll_s: between two looks at them.
        log: debug, info or warning.
    """

    folder: str
    names: tuple[str, ...]
    population: str
    broker_port: int
    url: str
    hysteresis_s: float = 0.0
    poll_s: float = 0.5
    log: str = "warning"


class _Learned:
    """Training that takes no time: every weight moves by the same."""

    batch_rows, sequence_length = 2, 6

    def __init__(self, size: int) -> None:
        self._size = size

    def train(
        self,
        x: npt.NDArray[np.int32],  # noqa: ARG002
        y: npt.NDArray[np.int32],
        learning_rate: float,  # noqa: ARG002
        clip_norm: float,  # noqa: ARG002
    ) -> TrainStep:
        return TrainStep(2.0, float(np.count_nonzero(y)), 0.0, 1.0)

    def save(self) -> Vector:
        return np.zeros(self._size, np.float32)

    def restore(self, weights: Vector) -> None:
        pass

    def reset(self) -> None:
        pass

    def evaluate(self, x: npt.NDArray[np.int32], y: npt.NDArray[np.int32]) -> Evaluation:  # noqa: ARG002
        return Evaluation(0.0, 0.0, 0.0, 0.0, 0.0)

    def delta(self) -> Vector:
        return np.full(self._size, 0.001, np.float32)


class _AllHold:
    def read(self) -> Readings:
        return {
            condition: Reading(Answer.YES, "emulated", "always")
            for condition in Condition
            if condition is not Condition.HAS_EXAMPLES
        }


def _phone(setting: Setting, name: str) -> tuple[Driver, mqtt.MqttTransport]:
    folder = Path(setting.folder) / name
    folder.mkdir(parents=True, exist_ok=True)
    clock, inbox = SystemClock(), queue.SimpleQueue[Item]()
    database = Database(folder / "agent.db", CAPS, clock)
    database.add_once("person", list(TEXTS))
    device, population = DeviceId(name), Population(setting.population)
    transport = mqtt.MqttTransport(
        mqtt.Broker("127.0.0.1", setting.broker_port, name),
        client_id=f"nightjar-agent-{population}-{name}",
        filters=topics.device_filters(population, device),
        will=(topics.status(population, device), messages.encode(Status(online=False, reason="connection lost"))),
        post=inbox.put,
    )

    def load(model: Model) -> _Learned:
        return _Learned(model.manifest.layout.size)

    driver = Driver(
        Identity(population, device, 1, "none", 1, GIGABYTE, emulated=True),
        Pace(setting.poll_s, setting.hysteresis_s, SESSION_LIMIT_S),
        Ports(
            clock=clock,
            jitter=random.random,
            random_for=lambda number, attempt: np.random.default_rng([number, attempt]),
            conditions=_AllHold(),
            transport=transport,
            artifacts=ModelFiles(folder / "artifacts", Downloader(setting.url)),
            examples=database,
            journal=database,
            worker=ThreadWorker(inbox.put),
            desk=Desk(database, database.residual, in_this_process(load, clock.monotonic_s)),
        ),
        inbox,
    )
    return driver, transport


def main(path: str) -> None:
    """Live until the process is ended from outside.

    Args:
        path: JSON of a Setting.
    """
    setting = msgspec.json.decode(Path(path).read_bytes(), type=Setting)
    set_up(setting.log)
    sys.setswitchinterval(0.001)  # a hundred agents in turn; each would have an interpreter of its own
    for name in setting.names:
        driver, transport = _phone(setting, name)
        transport.start()
        threading.Thread(target=driver.run, name=name, daemon=True).start()
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
