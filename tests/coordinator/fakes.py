"""In-memory ports for the driver, and a coordinator put together from them and a database in memory."""

import contextlib
import hashlib
import itertools
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.engine.aggregation import do_job, with_bases
from nightjar.coordinator.engine.driver import LISTEN_S, Driver
from nightjar.coordinator.ports import Signer
from nightjar.coordinator.records.effects import EFFECTS
from nightjar.coordinator.records.inbox import BrokerConnected, JobEnded, MessageArrived, Ticked
from nightjar.coordinator.records.jobs import ReportFile
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.labelling import Labelling
from nightjar.coordinator.rounds.pace_steering import Rhythm
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage import tables
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import IN_MEMORY
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.coordinator.storage.view import DatabaseView
from nightjar.coordinator.tasks.settings import CodecConfig
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.models.manifest import Manifest
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.errors import IntegrityError
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Assignment, CheckIn, Message
from nightjar.wire.secure_sum.messages import decode_down
from tests.coordinator.model_folder import write_model

POPULATION = Population("demo")
NO_TRIAL = TrialPolicy()


class Killed(BaseException):
    """The process was killed here."""


class MemoryBlobs:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.on_touch: Callable[[], None] = lambda: None

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.on_touch()
        self.blobs[name] = data
        self.on_touch()
        return name

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise IntegrityError(f"no blob {sha256}")
        return self.blobs[sha256]


class Tables:
    """What a database holds, by the keys of its rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def tasks(self) -> dict:
        with self._database.transaction() as view:
            return {record.name: record for record in view.tasks()}

    @property
    def rounds(self) -> dict:
        with self._database.transaction() as view:
            return {number: view.round(number) for number in self._keys(tables.rounds.c.number)}

    @property
    def reports(self) -> dict:
        with self._database.transaction() as view:
            found = [one for number in self._keys(tables.rounds.c.number) for one in view.reports(number)]
        return {(one.round, one.device, one.attempt): one for one in found}

    @property
    def frames(self) -> dict:
        columns = tables.report_frames.c
        return {
            tuple(key): body for *key, body in self._rows(columns.round, columns.device, columns.attempt, columns.body)
        }

    @property
    def chunks(self) -> dict:
        columns = tables.chunks.c
        return {
            tuple(key): body for *key, body in self._rows(columns.round, columns.device, columns.number, columns.body)
        }

    @property
    def states(self) -> dict:
        return dict(self._rows(tables.optimizer_states.c.sha256, tables.optimizer_states.c.body))

    @property
    def leases(self) -> dict:
        with self._database.transaction() as view:
            return {device: view.lease(device) for device in self._keys(tables.devices.c.device)}

    @property
    def versions(self) -> dict:
        with self._database.transaction() as view:
            return {number: view.version(number) for number in self._keys(tables.versions.c.version)}

    @property
    def federated(self) -> dict:
        with self._database.transaction() as view:
            return {number: view.federated(number) for number in self._keys(tables.federated.c.version)}

    @property
    def effects(self) -> dict:
        found = self._rows(tables.effects.c.number, tables.effects.c.body)
        return {number: EFFECTS.decode(body) for number, body in found}

    @property
    def counters(self) -> dict:
        with self._database.transaction() as view:
            return dict(view.counters())

    @property
    def rhythm(self) -> Rhythm:
        with self._database.transaction() as view:
            return view.rhythm()

    @property
    def labelling(self) -> Labelling:
        with self._database.transaction() as view:
            return view.labelling()

    @property
    def audit(self) -> list:
        with self._database.transaction() as view:
            return view.audit(1000)[::-1]

    def _keys(self, column) -> list:
        return [key for (key,) in self._rows(column)]

    def _rows(self, *columns) -> list:
        with self._database.connection() as connection:
            return [tuple(row) for row in connection.execute(sa.select(*columns).order_by(columns[0]))]


class KeptFrames(PrivateTables):
    """Frames of reports without the rounds that they belong to; by default in memory."""

    def __init__(self, url: str = IN_MEMORY) -> None:
        self.database = Database(url)
        super().__init__(self.database)
        weakref.finalize(self, self.database.close)

    def keep(self, data: bytes, device: str, num_examples: int, round_number: int = 1) -> ReportFile:
        row = {"round": round_number, "device": device, "attempt": 1, "body": data}
        with self.database.connection() as connection:
            connection.execute(tables.upsert(connection.dialect.name, tables.report_frames), row)
        return ReportFile(DeviceId(device), 1, num_examples)


class FragileDatabase:
    """A database in memory; ``on_touch`` is called, and may raise, at both ends of a transaction and after it."""

    def __init__(self) -> None:
        self.database = Database(IN_MEMORY)
        self.on_touch: Callable[[], None] = lambda: None
        weakref.finalize(self, self.database.close)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[DatabaseView]:
        self.on_touch()
        with self.database.transaction() as view:
            yield view
            self.on_touch()
        self.on_touch()


class FakeTransport:
    """Keeps what was sent; ``broken`` stands for a process that dies before the network has it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message, bool]] = []
        self.cleared: list[str] = []
        self.on_touch: Callable[[], None] = lambda: None

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.on_touch()
        if payload:
            kind = topic.rsplit("/", 1)[1]
            message = decode_down(payload) if kind == topics.SUM_QUESTION else messages.decode(kind, payload)
            self.sent.append((topic, message, retain))
        else:
            assert retain, "an empty message is for what the broker retained"
            self.cleared.append(topic)
        self.on_touch()

    def to(self, device: str, kind: type | None = None) -> list[Message]:
        end = f"/down/{device}/"
        return [m for topic, m, _ in self.sent if end in topic and (kind is None or isinstance(m, kind))]


class FakeWorker:
    """Does jobs when the test says so."""

    def __init__(self) -> None:
        self.jobs: list = []
        self.on_touch: Callable[[], None] = lambda: None

    def submit(self, job) -> None:
        self.on_touch()
        self.jobs.append(job)


class FakeClock:
    def __init__(self, now_s: float = 1_000_000.0) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        return self.time_s


def task_config(model: Path, **fields) -> TaskConfig:
    defaults = {
        "goal": 2,
        "minimum": 2,
        "over_selection": 1.0,
        "selection_window_s": 0.0,
        "selection_deadline_s": 60.0,
        "report_deadline_s": 100.0,
        "retry_after_s": 5.0,
        "codec": CodecConfig(name="dense-f32"),
    }
    return TaskConfig(model=model, **{**defaults, **fields})


class World:
    """A coordinator on in-memory ports that can be killed at any touch and started again on what it left.

    ``open_database`` is called at each start; without it there is one in memory.
    """

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        open_database: Callable[[], Database] | None = None,
        rollout: TrialPolicy = NO_TRIAL,
        signer: Signer | None = None,
        limits: Limits = NO_LIMITS,
        enrolled: Callable[[str], bytes | None] = lambda _device: None,
        **task,
    ) -> None:
        self.manifest = manifest
        self.config = CoordinatorConfig(task=task_config(folder, **task), rollout=rollout, limits=limits)
        self.signer = signer
        self.enrolled = enrolled
        self.measured = VersionMetrics(0.1, 0.2, 3.0)
        self.clock = FakeClock()
        memory = FragileDatabase()
        self.open_database = open_database or (lambda: memory)
        self.repository = self.open_database()
        self.artifacts = MemoryBlobs()
        for name in ("program.tflite", "weights.bin", "vocabulary.txt", "manifest.json"):
            self.artifacts.put((folder / name).read_bytes())
        with self.repository.transaction() as tx:
            first = with_bases(manifest, self.config.task.privacy, self.config.seed, self.artifacts)
            stored = self.artifacts.put(first.encode())
            tx.add_version(VersionRecord(version=0, task=self.config.task.name, manifest=stored))
        self.transport = FakeTransport()
        self.worker = FakeWorker()
        self.acknowledged = 0
        self._gathered: list[MessageArrived] | None = None
        self.start()

    def start(self) -> None:
        """A fresh process: nothing but the database, the files and the network's memory remains."""
        self.worker.jobs.clear()
        self.repository = self.open_database()
        self.driver = Driver(
            self.config,
            self.repository,
            self.artifacts,
            self.transport,
            self.worker,
            self.clock,
            np.random.default_rng(5),
            signer=self.signer,
            enrolled=self.enrolled,
        )
        self.driver.resume()
        self.driver.handle(BrokerConnected())

    def touch_with(self, on_touch: Callable[[], None]) -> None:
        for port in (self.repository, self.artifacts, self.transport, self.worker):
            port.on_touch = on_touch

    def receive(self, device: str, kind: str, payload: bytes) -> None:
        topic = topics.up(POPULATION, DeviceId(device), kind, 1)
        self._hand_over(MessageArrived(topic, payload, acknowledge=self._acknowledge))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is received in the block comes in one batch at its end."""
        self._gathered = []
        try:
            yield
            batch, self._gathered = self._gathered, None
            self.driver.handle(*batch)
        finally:
            self._gathered = None

    def say(self, device: str, message: Message) -> None:
        self.receive(device, messages.KINDS[type(message)], messages.encode(message))

    def status(self, device: str, message: messages.Status, *, retained: bool = False) -> None:
        topic = topics.status(POPULATION, DeviceId(device))
        self._hand_over(MessageArrived(topic, messages.encode(message), retained))

    def check_in(self, *devices: str, examples: int = 10, agent_version: str = "0.1.0") -> None:
        for device in devices:
            self.say(device, CheckIn(agent_version=agent_version, runtime="none", examples=examples, codecs=to_name()))

    def assignment(self, device: str) -> Assignment:
        return self.transport.to(device, Assignment)[-1]

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.time_s += seconds
        self.driver.handle(Ticked())

    def listen(self) -> None:
        """Let the time pass in which deadlines stand still after a (re)connect."""
        self.tick(LISTEN_S)

    def work(self) -> None:
        """Do what the worker was given."""
        for job in list(self.worker.jobs):
            self.worker.jobs.remove(job)
            result = do_job(job, self.artifacts, self.private, lambda *_: self.measured)
            self.driver.handle(JobEnded(result))

    @property
    def tables(self) -> Tables:
        return Tables(self._database)

    @property
    def private(self) -> PrivateTables:
        return PrivateTables(self._database)

    @property
    def _database(self) -> Database:
        return getattr(self.repository, "database", self.repository)

    @property
    def counters(self) -> dict:
        return self.tables.counters

    def phase_of(self, number: int) -> Phase:
        return self.tables.rounds[number].phase

    def _hand_over(self, event: MessageArrived) -> None:
        if self._gathered is None:
            self.driver.handle(event)
        else:
            self._gathered.append(event)

    def _acknowledge(self) -> None:
        self.acknowledged += 1


def on_disk(folder: Path) -> Callable[[], Callable[[], Database]]:
    """Makes SQLite databases in a folder; what it returns opens one, as often as it is called."""
    numbers = itertools.count()

    def fresh() -> Callable[[], Database]:
        url = f"sqlite:///{folder / f'{next(numbers)}.sqlite'}"
        return lambda: Database(url)

    return fresh


@contextlib.contextmanager
def worlds(folder: Path, fresh: Callable[[], Callable[[], Database]] | None = None) -> Iterator[Callable[..., World]]:
    """Makes worlds around a small model, each with a database of its own that each start opens anew.

    Args:
        folder: where the model is written.
        fresh: makes a database, and returns what opens it; None for databases in memory, which outlive a start.
    """
    manifest, opened = write_model(folder), list[Database]()

    def kept(open_database: Callable[[], Database]) -> Callable[[], Database]:
        def open_and_keep() -> Database:
            opened.append(open_database())
            return opened[-1]

        return open_and_keep

    def make(**task) -> World:
        return World(manifest, folder, None if fresh is None else kept(fresh()), **task)

    yield make
    for database in opened:
        database.close()
