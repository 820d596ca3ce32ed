"""In-memory ports for the driver, and a coordinator put together from them."""

import contextlib
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from coordinator.averaging import do_job, with_mask
from coordinator.config import CodecConfig, CoordinatorConfig, TaskConfig
from coordinator.core.federated import Tally
from coordinator.core.pace import Rhythm
from coordinator.core.rollout import Stage, TrialPolicy
from coordinator.core.round import TERMINAL, Phase
from coordinator.driver import LISTEN_S, Driver
from coordinator.inbox import Connected, JobEnded, MessageArrived, Ticked
from coordinator.jobs import Metrics
from coordinator.ports import Repository, RoundSummary, Signer, VersionRecord
from models.manifest import Manifest
from wire import messages, topics
from wire.errors import IntegrityError
from wire.identifiers import DeviceId, Population
from wire.messages import Assignment, CheckIn, Message

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

    def keep_all(self, blobs) -> None:
        for name, data in blobs.items():
            self.on_touch()
            self.blobs[name] = data
            self.on_touch()

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise IntegrityError(f"no blob {sha256}")
        return self.blobs[sha256]

    def delete(self, sha256: str) -> None:
        self.on_touch()
        self.blobs.pop(sha256, None)


@dataclass
class Tables:
    tasks: dict = field(default_factory=dict)
    rounds: dict = field(default_factory=dict)
    reports: dict = field(default_factory=dict)
    chunks: dict = field(default_factory=dict)
    leases: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    federated: dict = field(default_factory=dict)
    effects: dict = field(default_factory=dict)
    counters: dict = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    audit: dict = field(default_factory=dict)
    begun: dict = field(default_factory=dict)
    last_effect: int = 0


class MemoryView:
    def __init__(self, tables: Tables, on_touch: Callable[[], None]) -> None:
        self._t = tables
        self._touch = on_touch

    def flush(self):
        pass

    def tasks(self):
        return sorted(self._t.tasks.values(), key=lambda record: record.state.number)

    def task(self, name):
        return self._t.tasks.get(name)

    def save_task(self, record):
        self._touch()
        self._t.tasks[record.name] = record

    def open_rounds(self):
        return [state for _, state in sorted(self._t.rounds.items()) if state.phase not in TERMINAL]

    def round(self, number):
        return self._t.rounds.get(number)

    def last_round_number(self):
        return max(self._t.rounds, default=0)

    def rounds_in(self, phase):
        return sum(state.phase is phase for state in self._t.rounds.values())

    def save_round(self, state):
        self._touch()
        self._t.rounds[state.number] = state

    def reports(self, round_number):
        return [self._t.reports[key] for key in sorted(self._t.reports) if key[0] == round_number]

    def add_report(self, report):
        self._touch()
        key = (report.round, report.device, report.attempt)
        if key in self._t.reports:
            raise ValueError(f"report {key} twice")
        self._t.reports[key] = report

    def chunks(self, round_number, device, attempt):
        return [self._t.chunks[key] for key in sorted(self._t.chunks) if key[:3] == (round_number, device, attempt)]

    def add_chunk(self, chunk):
        self._touch()
        key = (chunk.round, chunk.device, chunk.attempt, chunk.number)
        if key in self._t.chunks:
            raise ValueError(f"chunk {key} twice")
        self._t.chunks[key] = chunk

    def drop_chunks(self, round_number, device=None):
        keys = [key for key in sorted(self._t.chunks) if key[0] == round_number and device in {None, key[1]}]
        dropped = {self._t.chunks.pop(key).sha256 for key in keys}
        return sorted(dropped - {chunk.sha256 for chunk in self._t.chunks.values()})

    def lease(self, device):
        return self._t.leases.get(device)

    def save_lease(self, lease):
        self._touch()
        self._t.leases[lease.device] = lease

    def device_states(self):
        states = Counter(
            (one.state, one.reason if one.state == "ineligible" else "") for one in self._t.leases.values()
        )
        return dict(states)

    def devices_since(self, since_s):
        return sum(lease.last_seen_s >= since_s for lease in self._t.leases.values())

    def leases(self, limit):
        newest = sorted(self._t.leases.values(), key=lambda lease: -lease.last_seen_s)[:limit]
        return sorted(newest, key=lambda lease: lease.device)

    def leases_after(self, limit, device):
        return [self._t.leases[name] for name in sorted(self._t.leases) if name > device][:limit]

    def version(self, number):
        return self._t.versions.get(number)

    def current_version(self, task=None):
        return self._newest(Stage.CURRENT, task)

    def canary_version(self, task=None):
        return self._newest(Stage.CANARY, task)

    def _newest(self, stage, task):
        found = [r for r in self._t.versions.values() if r.rollout.stage is stage and task in {None, r.task}]
        return max(found, key=lambda record: record.version, default=None)

    def last_version_number(self):
        return max(self._t.versions, default=0)

    def save_version(self, record):
        self._touch()
        self._t.versions[record.version] = record

    def federated(self, version):
        return self._t.federated.get(version, Tally())

    def save_federated(self, version, tally):
        self._touch()
        self._t.federated[version] = tally

    def add_version(self, record):
        self._touch()
        if record.version in self._t.versions:
            raise ValueError(f"version {record.version} twice")
        self._t.versions[record.version] = record

    def set_manifest(self, version, manifest):
        self._t.versions[version] = msgspec.structs.replace(self._t.versions[version], manifest=manifest)

    def set_metrics(self, version, metrics):
        self._t.versions[version] = msgspec.structs.replace(self._t.versions[version], metrics=metrics)

    def versions(self, limit, before=None, task=None):
        found = [self._t.versions[number] for number in sorted(self._t.versions) if before is None or number < before]
        return [record for record in found if task is None or record.task == task][-limit:]

    def effects(self):
        return sorted(self._t.effects.items())

    def add_effect(self, effect):
        self._touch()
        self._t.last_effect += 1
        self._t.effects[self._t.last_effect] = effect
        return self._t.last_effect

    def begin_effects(self):
        for number in self._t.effects:
            self._t.begun[number] = self._t.begun.get(number, 0) + 1
        return [(number, effect, self._t.begun[number]) for number, effect in self.effects()]

    def remove_effects(self, numbers):
        self._touch()
        for number in numbers:
            self._t.effects.pop(number, None)

    def count(self, name, amount=1):
        self._t.counters[name] = self._t.counters.get(name, 0) + amount

    def measured_since(self):
        return self._t.facts.get("measured-since", -1)

    def rhythm(self):
        return self._t.facts.get("rhythm", Rhythm())

    def save_rhythm(self, rhythm):
        self._touch()
        self._t.facts["rhythm"] = rhythm

    def add_audit(self, entry):
        self._touch()
        number = len(self._t.audit) + 1
        self._t.audit[number] = msgspec.structs.replace(entry, number=number)

    def audit(self, limit, before=None):
        return [entry for number, entry in self._t.audit.items() if before is None or number < before][::-1][:limit]

    def counters(self):
        return dict(self._t.counters)

    def recent_rounds(self, limit, before=None, phase=None, task=None):
        found = [self._t.rounds[number] for number in sorted(self._t.rounds) if before is None or number < before]
        wanted = [state for state in found if phase in {None, state.phase} and task in {None, state.task}]
        return [self._summary(state) for state in wanted[-limit:]]

    def _summary(self, state):
        found = self.reports(state.number)
        return RoundSummary.of(state, [(report.loss, report.num_examples, report.size_bytes) for report in found])

    def accepted_reports(self):
        return len(self._t.reports)

    def baselines(self):
        return None

    def report_bytes_median(self):
        sizes = [report.size_bytes for report in self._t.reports.values()]
        return int(np.median(sizes)) if sizes else None


class MemoryRepository:
    """Committed when the block ends without an exception, like a database."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.on_touch: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[MemoryView]:
        draft = copy.copy(self.tables)
        for name, table in vars(self.tables).items():
            setattr(draft, name, copy.copy(table))
        self.on_touch()
        yield MemoryView(draft, self.on_touch)
        self.on_touch()
        self.tables = draft
        self.on_touch()


class FakeTransport:
    """Keeps what was sent; ``broken`` stands for a process that dies before the network has it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message, bool]] = []
        self.on_touch: Callable[[], None] = lambda: None

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.on_touch()
        kind = topic.rsplit("/", 1)[1]
        self.sent.append((topic, messages.decode(kind, payload), retain))
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

    ``open_repository`` is called at each start; without it there is one in memory.
    """

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        open_repository: Callable[[], Repository] | None = None,
        rollout: TrialPolicy = NO_TRIAL,
        signer: Signer | None = None,
        **task,
    ) -> None:
        self.manifest = manifest
        self.config = CoordinatorConfig(task=task_config(folder, **task), rollout=rollout)
        self.signer = signer
        self.measured = Metrics(0.1, 0.2, 3.0)
        self.clock = FakeClock()
        memory = MemoryRepository()
        self.open_repository = open_repository or (lambda: memory)
        self.repository = self.open_repository()
        self.artifacts, self.private = MemoryBlobs(), MemoryBlobs()
        for name in ("program.tflite", "weights.bin", "vocabulary.txt", "manifest.json"):
            self.artifacts.put((folder / name).read_bytes())
        with self.repository.transaction() as tx:
            first = with_mask(manifest, self.config.task.codec, self.config.seed, self.artifacts)
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
        self.repository = self.open_repository()
        self.driver = Driver(
            self.config,
            self.repository,
            self.artifacts,
            self.private,
            self.transport,
            self.worker,
            self.clock,
            np.random.default_rng(5),
            signer=self.signer,
        )
        self.driver.resume()
        self.driver.handle(Connected())

    def touch_with(self, on_touch: Callable[[], None]) -> None:
        for port in (self.repository, self.artifacts, self.private, self.transport, self.worker):
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
            self.say(device, CheckIn(agent_version=agent_version, runtime="none", examples=examples))

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
        return self.repository.tables

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
