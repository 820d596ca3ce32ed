"""Runs many real agents without training in one process: ``python -m nightjar.benchmarks.phones SETTING.json``.

Everything but the training is real: driver, database, broker connection, downloads, codec, outbox. This serves to
measure the cost of a round without training. Each agent has its own threads, as on a device. An enrolled phone uses TLS
with its certificate; any other uses plain text.
"""

from __future__ import annotations

import functools
import os
import queue
import random
import sys
import threading
import traceback
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings
from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.enrolment.identity import held_identity, tls_context
from nightjar.edge_agent.inbox import Item
from nightjar.edge_agent.link.trust import KnownKey
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Conditions, Pace, Ports, SessionDependencies
from nightjar.edge_agent.session.session import in_this_process
from nightjar.edge_agent.shell import mqtt
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.http import Downloader, Patience
from nightjar.edge_agent.shell.model_files import ModelFiles
from nightjar.edge_agent.shell.signatures import signature_valid
from nightjar.edge_agent.shell.sum_process import SumInProcess
from nightjar.edge_agent.shell.worker import JobThread, ThreadWorker
from nightjar.host.logs import configure_logs
from nightjar.wire import messages, topics
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Status
from nightjar.wire.parameters import ParameterLayout, Vector

TEXTS = ("the cat sat", "a dog ran")
CAPS = Caps(1000, 100_000, 1e9)
GIGABYTE = 10**9
SESSION_LIMIT_S = 600.0
ROWS_SEED, ROWS_SPREAD = 7, 1.5
"""They give a report the size of a real one at the default density: 10.4 kB for gboard, 1.7 kB for tiny."""


class PhoneSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the phones in one process."""

    folder: str  # parent of the phones' data folders, which have their names
    names: tuple[str, ...]
    population: str
    broker_port: int = 0  # on loopback; an enrolled phone uses its own
    url: str = ""  # of the coordinator; an enrolled phone uses its own
    hysteresis_s: float = 0.0  # how long conditions must hold
    poll_s: float = 0.5
    keep_alive_s: int = mqtt.KEEP_ALIVE_S
    log: str = "warning"  # debug, info or warning


class StandInTraining:
    """Replaces training of n parameters: takes no time and changes every weight by the same step."""

    def __init__(self, size: int, step: float = 0.001) -> None:
        self._size, self._step = size, step

    def train(
        self,
        x: npt.NDArray[np.int32],  # noqa: ARG002
        y: npt.NDArray[np.int32],
        learning_rate: float,  # noqa: ARG002
        clip_norm: float,  # noqa: ARG002
    ) -> TrainStep:
        """Do nothing; returns made-up metrics."""
        return TrainStep(2.0, float(np.count_nonzero(y)), 0.0, 1.0)

    def save(self) -> Vector:
        """Zeros, (n,) float32; nobody uses them."""
        return np.zeros(self._size, np.float32)

    def restore(self, weights: Vector) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing."""

    def evaluate(self, x: npt.NDArray[np.int32], y: npt.NDArray[np.int32]) -> Evaluation:  # noqa: ARG002
        """Zeros; nothing is measured."""
        return Evaluation(0.0, 0.0, 0.0, 0.0, 0.0)

    def delta(self) -> Vector:
        """The same change for every weight, (n,) float32."""
        return np.full(self._size, self._step, np.float32)


class LikeTraining(StandInTraining):
    """Replaces training by noise that is large in a few rows of a tensor and small in most, like real updates.

    Each phone has its own noise, but the same large rows.
    """

    def __init__(self, model: Model, name: str) -> None:
        self._layout = model.manifest.layout
        super().__init__(self._layout.size)
        self._seed = [zlib.crc32(name.encode()), model.manifest.version]

    def delta(self) -> Vector:
        """Noise with norm 1, (n,) float32."""
        rows, noise = _rows_and_noise(self._layout)
        found: Vector = rows * np.roll(noise, int(np.random.default_rng(self._seed).integers(noise.size)))
        return found / np.linalg.norm(found)


@functools.cache
def _rows_and_noise(layout: ParameterLayout) -> tuple[Vector, Vector]:
    generator = np.random.default_rng(ROWS_SEED)
    rows = [
        np.repeat(generator.lognormal(0.0, ROWS_SPREAD, len(range(0, spec.size, spec.shape[-1]))), spec.shape[-1])
        for spec in layout.tensors
    ]
    noise = generator.standard_normal(layout.size, np.float32)
    return np.concatenate(rows).astype(np.float32), noise


class AllHold:
    """Conditions that always hold."""

    def read(self) -> Readings:
        """The readings."""
        return {
            condition: ConditionReading(Answer.YES, "emulated", "always")
            for condition in Condition
            if condition is not Condition.HAS_EXAMPLES
        }


def make_phone(
    setting: PhoneSetting,
    name: str,
    learned: Callable[[Model], StandInTraining],
    conditions: Conditions,
    patience: Patience,
    texts: Sequence[str] = TEXTS,
    show_model: Callable[[Model], None] | None = None,
) -> tuple[Driver, mqtt.MqttTransport]:
    """An agent with its own folder, not running yet, and its connection.

    ``learned`` makes the replacement of its training from a model. ``show_model`` is called with each new model for the
    keyboard; None if there is no keyboard.
    """
    folder = Path(setting.folder) / name
    folder.mkdir(parents=True, exist_ok=True)
    clock, inbox = SystemClock(), queue.SimpleQueue[Item]()
    database = Database(folder / "agent.db", CAPS, clock)
    database.add_once("person", list(texts))
    device, population = DeviceId(name), Population(setting.population)
    broker, url, tls, key = mqtt.BrokerAddress("127.0.0.1", setting.broker_port, name), setting.url, None, ""
    enrolled = held_identity(folder)
    if enrolled is not None:
        tls = tls_context(folder, enrolled)
        broker = mqtt.BrokerAddress(enrolled.broker_host, enrolled.broker_port, name, tls=tls)
        url, key = enrolled.coordinator_url, enrolled.coordinator_key
    transport = mqtt.MqttTransport(
        broker,
        client_id=f"nightjar-agent-{population}-{name}",
        filters=topics.device_filters(population, device),
        will=(topics.status(population, device), messages.encode(Status(online=False, reason="connection lost"))),
        post=inbox.put,
    )

    driver = Driver(
        AgentIdentity(population, device, "none", 1, GIGABYTE, emulated=True),
        Pace(setting.poll_s, setting.hysteresis_s, SESSION_LIMIT_S),
        Ports(
            clock=clock,
            jitter=random.random,
            random_for=lambda number, attempt: np.random.default_rng([number, attempt]),
            conditions=conditions,
            transport=transport,
            artifacts=ModelFiles(
                folder / "artifacts",
                Downloader(url, patience, tls=tls),
                lambda _manifest: None,  # nothing is run: training is what the benchmark leaves out
                keyboard=show_model is not None,
            ),
            examples=database,
            journal=database,
            worker=ThreadWorker(inbox.put, JobThread()),
            desk=SessionDependencies(database, in_this_process(learned, clock.monotonic_s)),
            trust=KnownKey(population, device, database, key, is_valid=signature_valid),
            sums=SumInProcess(folder),
            show_model=show_model,
        ),
        inbox,
    )
    return driver, transport


def live(path: str, make: Callable[[PhoneSetting, str], tuple[Driver, mqtt.MqttTransport]]) -> None:
    """Run the phones of a PhoneSetting, from its JSON file, until the process is killed, or one of them raises."""
    setting = msgspec.json.decode(Path(path).read_bytes(), type=PhoneSetting)
    configure_logs(setting.log)
    mqtt.KEEP_ALIVE_S = setting.keep_alive_s
    sys.setswitchinterval(0.001)  # a hundred agents share this interpreter; on devices each has its own
    threads = []
    for name in setting.names:
        driver, transport = make(setting, name)
        transport.start()
        threads.append(threading.Thread(target=_run, args=(driver,), name=name))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run(driver: Driver) -> None:
    try:
        driver.run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # end the whole process, as on a device


def main(path: str) -> None:
    """Run phones with replaced training, and conditions that always hold."""

    def make(setting: PhoneSetting, name: str) -> tuple[Driver, mqtt.MqttTransport]:
        return make_phone(setting, name, lambda model: LikeTraining(model, name), AllHold(), Patience())

    live(path, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
