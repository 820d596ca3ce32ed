"""Fakes of the agent's ports, and a model small enough to reason about."""

from __future__ import annotations

import hashlib
import itertools
import queue
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading
from nightjar.edge_agent.core.lifecycle import name
from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.driver import Driver
from nightjar.edge_agent.inbox import Arrived, Job, WorkDone
from nightjar.edge_agent.link.uplink import AgentIdentity
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Pace, Ports, SessionDependencies
from nightjar.edge_agent.session.session import in_this_process, no_keyboard
from nightjar.edge_agent.shell.database import Database
from nightjar.models.configurations import lstm_layout
from nightjar.models.manifest import Artifact, LexiconFile, Manifest
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.simulation.rounds.ports import SimulatedSums
from nightjar.wire import messages, topics
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import DeviceId, Population, Sha256
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.messages import Announcement, Assignment, CodecChoice, Receipt, TrainingPlan, Verdict
from nightjar.wire.parameters import weights_to_bytes
from nightjar.wire.secure_sum.messages import decode_up

WORDS = ("the", "cat", "sat", "on", "a", "mat")
VOCABULARY = Vocabulary(WORDS)
LAYOUT = lstm_layout(FIRST_WORD + len(WORDS), 3, 5)
CAPS = Caps(messages=1000, total_bytes=100_000, age_s=1e6)


def any_program(_manifest):
    """Lets a device fetch every program."""


@dataclass
class FakeClock:
    now_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return 1.7e9 + self.now_s

    def certain_s(self) -> float | None:
        return self.wall_s()


@dataclass
class FakeConditions:
    """All hold, unless a condition is named in ``lost``."""

    lost: set[Condition] = field(default_factory=set)

    def read(self):
        return {
            c: ConditionReading(
                Answer.NO if c in self.lost else Answer.YES, "fake", f"no {c.value}" if c in self.lost else "ok"
            )
            for c in Condition
            if c is not Condition.HAS_EXAMPLES
        }


@dataclass
class FakeTransport:
    """Keeps what was published, as (topic kind, message or bytes)."""

    connected: bool = True
    sent: list[tuple[str, object]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def publish(self, topic, payload, *, retain=False):
        if not self.connected:
            return False
        self.raw.append(payload)
        self.topics.append(topic)
        match topics.parse(topic):
            case topics.UpTopic(_, _, _, "report"):
                self.sent.append(("report", payload))
            case topics.UpTopic(_, _, _, topics.SUM_ANSWER):
                self.sent.append((topics.SUM_ANSWER, decode_up(payload)))
            case topics.UpTopic(_, _, _, kind):
                self.sent.append((kind, messages.decode(kind, payload)))
            case topics.StatusTopic():
                self.sent.append(("status", messages.decode("status", payload)))
        return True

    def of(self, kind):
        return [message for found, message in self.sent if found == kind]


@dataclass
class FakeWorker:
    """Runs a job only when the test says so."""

    jobs: list[Job] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)

    def start(self, job):
        self.jobs.append(job)

    def stop(self, number):
        self.stopped.add(number)

    def finish(self) -> WorkDone:
        job = self.jobs.pop(0)
        try:
            outcome = job.work(lambda: job.number in self.stopped)
        except Exception as error:
            outcome = error
        return WorkDone(job.number, outcome)


@dataclass
class FakeArtifacts:
    model: Model
    failure: Exception | None = None
    fetched: list[str] = field(default_factory=list)
    held: Model | None = None
    others: dict[str, Model] = field(default_factory=dict)
    adopted: Model | None = None

    def current(self):
        return self.held

    def announced(self):
        return self.adopted or self.held

    def adopt(self, model):
        self.adopted = model
        return model

    def fetch(self, manifest, should_stop):
        self.fetched.append(manifest)
        if self.failure is not None:
            raise self.failure
        if should_stop():
            msg = "the download was stopped"
            raise UnavailableError(msg)
        self.held = self.others.get(manifest, self.model)
        return self.held


@dataclass
class FakeTrust:
    refuses: set[str] = field(default_factory=set)
    keys: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def announced(self, payload):
        self.keys.append(messages.decode("announce", payload).key)

    def refused(self, why):
        self.told.append(why)

    def check(self, kind, payload):
        order = messages.decode(kind, payload)
        named = {order.manifest} | ({order.canary.manifest} if kind == "announce" and order.canary else set())
        if named & self.refuses:
            raise RemoteProtocolError("nobody signed it", code="signature")


class FakeProgram:
    """Each step moves every weight by the learning rate; the loss is as given."""

    def __init__(self, size=LAYOUT.size, losses=(2.0,)):
        self.weights = np.zeros(size, np.float32)
        self.anchor = self.weights.copy()
        self.losses = losses
        self.batches = []

    def train(self, x, y, learning_rate, clip_norm):
        loss = self.losses[min(len(self.batches), len(self.losses) - 1)]
        self.batches.append((x.copy(), y.copy()))
        # Not alike everywhere, or top-k would have nothing to choose.
        self.weights = self.weights + learning_rate * np.linspace(0.5, 1.5, self.weights.size, dtype=np.float32)
        return TrainStep(loss, float(np.count_nonzero(y)), 0.0, 1.0)

    def evaluate(self, x, y):
        return Evaluation(0.0, 0.0, 0.0, 0.0, 0.0)

    def save(self):
        return self.weights.copy()

    def restore(self, weights):
        self.weights, self.anchor = weights.copy(), weights.copy()

    def reset(self):
        self.weights = self.anchor.copy()

    def delta(self):
        return self.weights - self.anchor


def write_model(
    folder: Path,
    version: int = 0,
    lexicons: Mapping[str, bytes] = MappingProxyType({}),
    ngram: bytes | None = None,
    vocabulary: Vocabulary = VOCABULARY,
) -> Model:
    """The small model as files; its program is none."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "program": b"program",
        "weights": weights_to_bytes(np.full(LAYOUT.size, version, np.float32)),
        "vocabulary": vocabulary.to_bytes(),
    }
    manifest = Manifest(
        version=version,
        configuration="small",
        layout=LAYOUT,
        batch_rows=2,
        sequence_length=6,
        hidden=5,
        minimum_agent_version="0.1.0",
        lexicons=tuple(LexiconFile(language, Artifact.of(data)) for language, data in lexicons.items()),
        ngram=None if ngram is None else Artifact.of(ngram),
        **{part: Artifact.of(data) for part, data in parts.items()},
    )
    paths = {}
    for part, data in parts.items():
        paths[part] = folder / hashlib.sha256(data).hexdigest()
        paths[part].write_bytes(data)
    for file, data in zip(manifest.for_keyboards, [*lexicons.values(), *([ngram] if ngram else [])], strict=True):
        (folder / file.sha256).write_bytes(data)
    (folder / manifest.sha256).write_bytes(manifest.encode())
    return Model(Sha256(manifest.sha256), manifest, **paths)


def assignment(model: Model, number: int = 1, attempt: int = 1, **changes) -> Assignment:
    fields = {
        "task": "demo",
        "round": number,
        "attempt": attempt,
        "version": model.manifest.version,
        "manifest": model.sha256,
        "codec": CodecChoice(name="topk-8", density=0.1),
        "plan": TrainingPlan(learning_rate=0.5, clip_norm=1.0),
        "report_deadline_s": 60.0,
    }
    return Assignment(**(fields | changes))


class Phone:
    """A driver among fakes, over a real database file: kill it and start it again."""

    def __init__(
        self,
        folder: Path,
        *,
        losses=(2.0,),
        keyboard: bool = False,
        limits=NO_LIMITS,
        program=FakeProgram,
        evaluate_keyboard=no_keyboard,
    ) -> None:
        self.limits = limits
        self.program, self.evaluate_keyboard = program, evaluate_keyboard
        self.folder = folder
        self.model = write_model(folder / "files")
        self.clock = FakeClock()
        self.conditions = FakeConditions()
        self.artifacts = FakeArtifacts(self.model)
        self.trust = FakeTrust()
        self.losses = losses
        self.seeds = itertools.count()
        self.shown: list[int] | None = [] if keyboard else None
        self.releases = None
        self.worn = False
        self.start()
        self.database.add_once("person", ["the cat sat on the mat", "a cat"])

    def start(self) -> None:
        """A new process: only the database and the outside world are as before."""
        self.database = Database(self.folder / "agent.db", CAPS, self.clock)
        self.transport = FakeTransport()
        self.worker = FakeWorker()
        self.programs: list[FakeProgram] = []

        def load(_model):
            self.programs.append(self.program(losses=self.losses))
            return self.programs[-1]

        self.driver = Driver(
            AgentIdentity(Population("demo"), DeviceId("phone"), "fake 1.0", 4, 10**9, emulated=True),
            Pace(poll_s=1.0, hysteresis_s=120.0, session_limit_s=585.0),
            Ports(
                clock=self.clock,
                jitter=lambda: 0.5,
                random_for=lambda number, attempt: np.random.default_rng([number, attempt]),
                conditions=self.conditions,
                transport=self.transport,
                artifacts=self.artifacts,
                examples=self.database,
                journal=self.database,
                worker=self.worker,
                desk=SessionDependencies(
                    self.database,
                    in_this_process(load, self.clock.monotonic_s, self.evaluate_keyboard),
                    announced=self.artifacts.announced if self.shown is not None else lambda: None,
                ),
                trust=self.trust,
                sums=SimulatedSums(0, lambda: bytes(31) + bytes([next(self.seeds)])),
                limits=self.limits,
                show_model=None if self.shown is None else self.show,
                releases=self.releases,
                card_worn=lambda *, working: self.worn,
            ),
            queue.SimpleQueue(),
        )

    def show(self, model: Model) -> None:
        self.shown.append(model.manifest.version)

    def kill(self) -> None:
        """kill -9, and a new start: nothing of the old process is closed, asked or told."""
        self.start()
        self.driver.begin()

    def pass_time(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.driver.poll()

    def hear(self, message) -> None:
        if isinstance(message, Announcement):
            topic = topics.announce(Population("demo"))
        else:
            topic = topics.down(Population("demo"), DeviceId("phone"), messages.KINDS[type(message)])
        self.driver.handle(Arrived(topic, messages.encode(message)))

    def work(self) -> None:
        self.driver.handle(self.worker.finish())

    def check_in(self) -> None:
        self.driver.begin()
        self.pass_time(1)
        self.pass_time(120)

    def be_assigned(self, number: int = 1, **changes) -> None:
        self.hear(assignment(self.model, number, **changes))

    @property
    def state(self) -> str:
        return name(self.driver.state)


def receipt(verdict: Verdict = Verdict.ACCEPTED, number: int = 1, retry_after_s: float = 0.0) -> Receipt:
    return Receipt(round=number, attempt=1, verdict=verdict, retry_after_s=retry_after_s)


def to_report(phone: Phone, number: int = 1, **changes) -> None:
    phone.check_in()
    phone.be_assigned(number, **changes)
    phone.work()
    phone.work()
