"""Makes a coordinator's data folder as a release of that time left it: killed in the middle of its third round.

``make_old.py`` runs this file in a checkout of that time, so it may only use what every release has. Its one argument
is the folder. Devices' bytes that were not sent yet lie beside the data, in ``outbox``.
"""

import contextlib
import sys
from pathlib import Path

import numpy as np

from coordinator.averaging import do_job
from coordinator.config import CoordinatorConfig, OptimizerName, ServerConfig
from coordinator.core import round as rounds
from coordinator.driver import LISTEN_S, Driver
from coordinator.inbox import ArtifactServed, Connected, JobEnded, MessageArrived, Ticked
from coordinator.jobs import Metrics
from coordinator.ports import VersionRecord
from coordinator.shell.blobs import FileBlobs
from coordinator.shell.database import Database
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import POPULATION, FakeClock, FakeTransport, FakeWorker, Killed, task_config
from tests.coordinator.model_folder import LAYOUT, write_model
from wire import frame, messages, topics
from wire.identifiers import DeviceId
from wire.messages import Assignment, CheckIn, Dropout, DropoutCause, Status


class Life:
    """The coordinator of that time on real files, with a network and a worker that the scenario plays."""

    def __init__(self, folder: Path) -> None:
        manifest = write_model(folder / "model")
        self.config = CoordinatorConfig(
            task=task_config(
                folder / "model",
                goal=3,
                over_selection=4 / 3,
                server=ServerConfig(optimizer=OptimizerName.FEDAVGM, learning_rate=1.0, momentum=0.5),
            )
        )
        self.database = Database(f"sqlite:///{folder / 'coordinator.sqlite'}")
        self.artifacts = FileBlobs(folder / "artifacts")
        self.private = _private(folder / "private")
        for name in ("program.tflite", "weights.bin", "vocabulary.txt", "manifest.json"):
            self.artifacts.put((folder / "model" / name).read_bytes())
        with self.database.transaction() as tx:
            tx.add_version(
                VersionRecord(
                    version=0, manifest=manifest.sha256, created_s=999_000.0, metrics=Metrics(0.05, 0.125, 4.0)
                )
            )
        self.clock, self.transport, self.worker = FakeClock(), FakeTransport(), FakeWorker()
        self.driver = Driver(
            self.config,
            self.database,
            self.artifacts,
            self.private,
            self.transport,
            self.worker,
            self.clock,
            np.random.default_rng(5),
        )
        self.driver.resume()
        self.driver.handle(Connected())
        self.tick(LISTEN_S)

    def tick(self, seconds: float) -> None:
        self.clock.time_s += seconds
        self.driver.handle(Ticked())

    def send(self, device: str, kind: str, payload: bytes) -> None:
        self.driver.handle(MessageArrived(topics.up(POPULATION, DeviceId(device), kind, 1), payload))

    def say(self, device: str, message: messages.Message) -> None:
        self.send(device, messages.KINDS[type(message)], messages.encode(message))

    def check_in(self, *devices: str) -> None:
        for device in devices:
            self.say(device, CheckIn(agent_version="0.1.0", runtime="ai-edge-litert 2.3.0", examples=10))

    def report(self, device: str, value: float, num_examples: int) -> bytes:
        asked = self.transport.to(device, Assignment)[-1]
        return report_frame(asked, np.full(LAYOUT.size, value, np.float32), LAYOUT, num_examples)

    def work(self) -> None:
        for job in list(self.worker.jobs):
            self.worker.jobs.remove(job)
            result = do_job(job, self.artifacts, self.private, lambda *_: Metrics(0.125, 0.25, 3.0))
            self.driver.handle(JobEnded(result))


def _private(folder: Path):
    try:
        from coordinator.shell.packs import PackedBlobs
    except ImportError:  # the first release kept one file for each report
        return FileBlobs(folder)
    return PackedBlobs(folder)


def main(folder: Path) -> None:
    life = Life(folder)
    for device in "abcd":
        topic = topics.status(POPULATION, DeviceId(device))
        life.driver.handle(MessageArrived(topic, messages.encode(Status(online=True, state="resting"))))
    life.driver.handle(ArtifactServed(1234))

    # Round 1 commits version 1; the fourth report comes too late.
    life.check_in("a", "b", "c", "d")
    late = life.report("d", 0.9, 7)
    for number, device in enumerate("abc", 1):
        life.send(device, "report", life.report(device, 0.01 * number, number))
    life.work()
    life.send("d", "report", late)

    # Round 2 is abandoned: one device is not enough.
    life.check_in("a")
    life.tick(life.config.task.selection_deadline_s + 1)

    # Round 3: a reported, b trains, c sent half, d gave up, and e has its place without knowing it yet.
    life.check_in("a", "b", "c", "d")
    life.send("a", "report", life.report("a", 0.01, 1))
    life.send("stranger", "report", life.report("b", 0.5, 5))
    life.say("d", Dropout(round=3, attempt=1, cause=DropoutCause.UNPLUGGED))
    outbox = folder / "outbox"
    outbox.mkdir()
    (outbox / "b").write_bytes(life.report("b", 0.02, 2))
    whole = life.report("c", 0.03, 3)
    frame.MAX_PUBLISH_BYTES = len(whole) - 1
    frame.CHUNK_PART_BYTES = len(whole) // 2 + 1
    first, second = frame.publishes(whole, 3, 1)
    (outbox / "c").write_bytes(second)
    life.send("c", "report", first)
    _operate(life)

    def die() -> None:
        raise Killed

    life.transport.on_touch = die
    with contextlib.suppress(Killed):
        life.check_in("e")
    with life.database.transaction() as tx:
        assert tx.open_round().phase is rounds.Phase.REPORTING
        assert tx.open_round().number == 3
        assert len(tx.effects()) == 1
    life.database.close()


def _operate(life: Life) -> None:
    """What later releases have: tokens, blocked devices, an audit log."""
    try:
        from coordinator.inbox import Operated
        from coordinator.operations import BlockDevice
        from coordinator.shell.tokens import TokenTable
        from coordinator.shell.web.access import Role, new_token
    except ImportError:
        return
    life.driver.handle(Operated(BlockDevice(DeviceId("f"), "sends nonsense"), "kim", lambda _: None))
    TokenTable(life.database).add(new_token("kim", Role.OPERATOR, life.clock.now_s(), 86400.0)[1], "root")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
