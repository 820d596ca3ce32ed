"""Real agents in one process, without a model: ``python -m tests.faults.phones SETTING.json``.

Everything but the training is real: driver, database, broker connection, downloads, codec, outbox. Training moves every
weight by a number that follows from the device's name, so that a test can compute what a version must be. A file with
the name of a state in a phone's folder holds it there: ``unplugged`` or ``training``. Logs go to standard error.
"""

from __future__ import annotations

import os
import queue
import random
import sys
import threading
import time
import traceback
import zlib
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from edge_agent.core.eligibility import Answer, Condition, Reading, Readings
from edge_agent.driver import Driver, Pace, Ports
from edge_agent.ports import Evaluation, Item, Model, TrainStep
from edge_agent.session import Desk, in_this_process
from edge_agent.shell import mqtt
from edge_agent.shell.clock import SystemClock
from edge_agent.shell.database import Caps, Database
from edge_agent.shell.http import Downloader, Patience
from edge_agent.shell.logs import set_up
from edge_agent.shell.model_files import ModelFiles
from edge_agent.shell.worker import ThreadWorker
from edge_agent.uplink import Identity
from wire import messages, topics
from wire.identifiers import DeviceId, Population
from wire.messages import Status

POPULATION = Population("demo")
TEXTS = ["the cat sat", "a dog ran"]


class Setting(msgspec.Struct, forbid_unknown_fields=True):
    """What the phones of one process have in common."""

    folder: str
    names: list[str]
    broker_port: int
    url: str
    hysteresis_s: float = 0.1
    poll_s: float = 0.1
    keep_alive_s: int = mqtt.KEEP_ALIVE_S


def step_of(device: str) -> float:
    """How far this device's training moves every weight."""
    return 0.001 * (1 + zlib.crc32(device.encode()) % 97)


class Program:
    """Learns the same whatever it reads."""

    batch_rows, sequence_length = 2, 6

    def __init__(self, folder: Path, size: int, device: str) -> None:
        self._held, self._size, self._step = folder / "training", size, step_of(device)

    def train(self, _x, y, _learning_rate, _clip_norm) -> TrainStep:
        while self._held.exists():
            time.sleep(0.02)
        return TrainStep(2.0, float(np.count_nonzero(y)), 0.0, 1.0)

    def evaluate(self, _x, _y) -> Evaluation:
        return Evaluation(0.0, 0.0, 0.0, 0.0, 0.0)

    def delta(self) -> np.ndarray:
        return np.full(self._size, self._step, np.float32)


class Conditions:
    """All hold, as long as nobody unplugs the phone."""

    def __init__(self, folder: Path) -> None:
        self._unplugged = folder / "unplugged"

    def read(self) -> Readings:
        plugged = Answer.NO if self._unplugged.exists() else Answer.YES
        return {
            condition: Reading(plugged if condition is Condition.CHARGING else Answer.YES, "test", "unplugged")
            for condition in Condition
            if condition is not Condition.HAS_EXAMPLES
        }


def phone(setting: Setting, name: str) -> tuple[Driver, mqtt.MqttTransport]:
    folder = Path(setting.folder) / name
    folder.mkdir(parents=True, exist_ok=True)
    clock, inbox = SystemClock(), queue.SimpleQueue[Item]()
    database = Database(folder / "agent.db", Caps(1000, 100_000, 1e9), clock)
    database.add_once("person", TEXTS)
    device = DeviceId(name)
    transport = mqtt.MqttTransport(
        mqtt.Broker("127.0.0.1", setting.broker_port, name),
        client_id=f"nightjar-agent-{POPULATION}-{name}",
        filters=topics.device_filters(POPULATION, device),
        will=(topics.status(POPULATION, device), messages.encode(Status(online=False, reason="connection lost"))),
        post=inbox.put,
    )

    def load(model: Model) -> Program:
        return Program(folder, model.manifest.layout.size, name)

    patience = Patience(tries=20, read_s=2.0)
    driver = Driver(
        Identity(POPULATION, device, 1, "none", 1, 10**9, emulated=True),
        Pace(setting.poll_s, setting.hysteresis_s, 600.0),
        Ports(
            clock=clock,
            jitter=random.random,
            random_for=lambda number, attempt: np.random.default_rng([number, attempt]),
            conditions=Conditions(folder),
            transport=transport,
            artifacts=ModelFiles(folder / "artifacts", Downloader(setting.url, patience)),
            examples=database,
            journal=database,
            worker=ThreadWorker(inbox.put),
            desk=Desk(database, database.residual, in_this_process(load, clock.monotonic_s)),
        ),
        inbox,
    )
    return driver, transport


def live(driver: Driver) -> None:
    """A driver that ends by a defect takes the process with it, as it would alone."""
    try:
        driver.run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def main(path: str) -> None:
    setting = msgspec.json.decode(Path(path).read_bytes(), type=Setting)
    set_up("info")
    mqtt.KEEP_ALIVE_S = setting.keep_alive_s
    threads = []
    for name in setting.names:
        driver, transport = phone(setting, name)
        transport.start()
        threads.append(threading.Thread(target=partial(live, driver), name=name))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
