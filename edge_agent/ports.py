"""The agent's ports: the interfaces between its decisions and the outside world, and what the driver is made with.

Each has a real adapter (``shell``, ``emulator``) and a fake in the tests. The values that pass through them are in
``core``, ``model``, ``inbox`` and ``session.task``. Errors come from :mod:`nightjar.wire.errors`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.core.eligibility import DEFAULT_POLICY, Policy, Readings
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.edge_agent.core.stored import Change, PendingDropout, Remembered
from nightjar.edge_agent.core.sum_steps import SumRequest, SumStep
from nightjar.edge_agent.inbox import Job, ReleaseCheckDone
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.session.task import Trainer
from nightjar.models.source import Source
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.identifiers import Sha256
from nightjar.wire.limits import NONE as NO_LIMITS
from nightjar.wire.limits import Limits
from nightjar.wire.parameters import Vector

Ids = npt.NDArray[Any]
"""(B, T) int32 ids of words, or (B, ...) float32 rows and their (B,) targets."""
Floats = npt.NDArray[np.float32]


class Clock(Protocol):
    """Source of time."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""

    def wall_s(self) -> float:
        """Seconds since 1970 UTC according to the device's clock, which may be wrong."""


class DatingClock(Clock, Protocol):
    """A clock that dates what is typed."""

    def certain_s(self) -> float | None:
        """Seconds since 1970 UTC to date what is typed with; None while the time is not certain."""


class Conditions(Protocol):
    """Reads the conditions of the device."""

    def read(self) -> Readings:
        """Read all conditions now. Never raises: a condition that cannot be determined is unknown."""


class Transport(Protocol):
    """Publishes to the coordinator. Received messages go to the driver's queue."""

    @property
    def connected(self) -> bool:
        """Whether we are connected and the broker has granted our subscriptions."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Hand a message to the connection, without waiting for it.

        Returns:
            False if there is no connection; the message is then dropped. True does not guarantee delivery.

        Raises:
            LocalProtocolError: the payload is too large for a publish.
        """


class Artifacts(Protocol):
    """The store of models on this device, which downloads new ones."""

    def current(self) -> Model | None:
        """The newest model that is complete on this device."""

    def announced(self) -> Model | None:
        """The version that the keyboard has; the newest one if none was announced yet."""

    def adopt(self, model: Model) -> Model:
        """Give the keyboard a version that was fetched last and is announced; returns it as it stays on the device.

        Raises:
            UnavailableError: it could not be noted.
        """

    def fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        """Download a model: only the parts that the device does not have yet.

        Its weights may lie in memory only, until the next model is fetched.

        Raises:
            UnavailableError: the coordinator cannot be reached, or ``should_stop`` returned true.
            RemoteProtocolError: the data does not match the hash or the manifest, or needs a newer agent.
        """


class Trust(Protocol):
    """Decides which orders this device obeys."""

    def announced(self, payload: bytes) -> None:
        """Note the public key in a message of kind ``announce``.

        Raises:
            UnavailableError: the key could not be stored.
        """

    def refused(self, why: str) -> None:
        """Note that an order was refused, for the device's owner to see. Thread-safe."""

    def check(self, kind: str, payload: bytes) -> None:
        """Check that the coordinator signed an order and that we have seen no newer one. Thread-safe.

        Raises:
            RemoteProtocolError: the order must not be obeyed.
            UnavailableError: the order cannot be checked now.
        """


class Program(Protocol):
    """A loaded model that can learn. One thread at a time."""

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> TrainStep:
        """One step of SGD on a batch: x, y (B, ...)."""

    def evaluate(self, x: Ids, y: Ids) -> Evaluation:
        """Loss and recall on a batch: x, y (B, ...)."""

    def save(self) -> Vector:
        """The weights, (n,) float32; treat as read-only."""

    def restore(self, weights: Vector) -> None:
        """Load weights (n,) float32, from which ``delta`` is measured."""

    def reset(self) -> None:
        """Go back to the weights of the last ``restore``."""

    def delta(self) -> Vector:
        """The change of the weights since ``restore``, (n,) float32."""


class Predictor(Protocol):
    """Scores each word as the next word. One thread at a time."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""

    @property
    def version(self) -> int | None:
        """Version of the underlying model; None if there is none."""

    def scores(self, finished: Sequence[str]) -> Floats:
        """Score every word of the vocabulary.

        Calls come while somebody types: mostly with the same words as before, or with one more.

        Args:
            finished: the words of the sentence so far, as :func:`nightjar.models.vocabulary.words` cuts them.

        Returns:
            (V,) float32, log-probabilities up to a common additive constant; treat as read-only. That of OOV is for
            all words outside the vocabulary together, if the predictor foresees them at all.

        Raises:
            NightjarError: the words cannot be scored, now or ever.
        """


@runtime_checkable
class Learner(Protocol):
    """A predictor that learns from the messages that are sent."""

    def learn(self, text: str) -> None:
        """Learn from a message. Must not run during a prediction."""


@runtime_checkable
class FurtherProgram(Program, Protocol):
    """A program that can do more than plain SGD."""

    def begin(self) -> None:
        """Reset the momentum, and take the current weights as the point that ``proximal`` pulls back to."""

    def train_momentum(
        self, x: Ids, y: Ids, learning_rate: float, clip_norm: float, momentum: float, proximal: float
    ) -> TrainStep:
        """One step like ``train``, with momentum and the proximal term of FedProx."""


class ExampleStore(Protocol):
    """The examples on this device: typed messages, and a folder for other task types. They never leave it."""

    def count(self) -> int:
        """Number of examples of all task types."""

    def source(self) -> Source:
        """What a session learns from."""

    def task_types(self) -> tuple[str, ...]:
        """The task types of this agent, as in :attr:`nightjar.wire.messages.CheckIn.task_types`."""


class Outgoing(Protocol):
    """Messages that wait to be sent. They survive a power cut."""

    def frame(self) -> bytes:
        """The bytes of the report in the outbox.

        Raises:
            LocalProtocolError: the outbox is empty.
        """

    def pending_dropouts(self) -> list[PendingDropout]:
        """Dropouts that are still to be sent, oldest first."""

    def dropout_sent(self, number: int) -> None:
        """Remove a dropout that was handed to the connection."""


class Journal(Outgoing, Protocol):
    """The state of the driver and what it has to send. Both survive a power cut."""

    def load(self) -> Remembered:
        """The state that the last process left."""

    def ledger(self) -> list[LedgerEntry]:
        """What the device has spent of its privacy, by task."""

    def commit(self, change: Change) -> None:
        """Write a change atomically.

        Raises:
            UnavailableError: the change could not be written; the journal is unchanged.
        """


SumMachine = Callable[[SumRequest], SumStep]
"""Makes a step of a secure sum with the device's enrolled key; keeps no state. Raises UnavailableError if it cannot be
made now, or the device is not enrolled."""

LoadProgram = Callable[[Model], Program]
"""Loads a program with its weights restored. Raises RemoteProtocolError if the files cannot be run."""

RandomFor = Callable[[int, int], np.random.Generator]
"""(round, attempt) -> the generator for shuffling and rounding in that session."""


class Worker(Protocol):
    """Runs jobs one after the other, off the driver's thread; outcomes go to the driver's queue."""

    def start(self, job: Job) -> None:
        """Queue a job: ``work(should_stop)`` is called, and its result or exception is the outcome."""

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of this job return true; a job that has not started is skipped."""


class Releases(Protocol):
    """Looks for releases of the agent."""

    def due(self, now_s: float, *, free: bool) -> bool:
        """Whether it is time to look; ``free`` is whether fetching costs neither battery nor money."""

    def ended(self, now_s: float, *, whole: bool) -> None:
        """Note that a look ended; one that was stopped is resumed as soon as it may be."""

    def look(self, free: bool, should_stop: Callable[[], bool]) -> ReleaseCheckDone:
        """Look for a release, fetch what may be fetched now, and hand it over to who installs it.

        Raises:
            UnavailableError: it failed, or was stopped.
        """


@dataclass(frozen=True, slots=True)
class SessionDependencies:
    """What every session of this agent works with.

    Attributes:
        personalise: keep a personal model if it is better.
        memory_bytes: most private memory of a training.
        announced: returns the version that the keyboard has; None without a keyboard.
    """

    examples: ExampleStore
    train: Trainer
    personalise: bool = False
    memory_bytes: int = sys.maxsize
    announced: Callable[[], Model | None] = lambda: None


SESSION_LIMIT_S = 585.0
"""Longest session, unless the report is due earlier: phones' job schedulers end a job after ten minutes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals, limits and policy of the driver.

    Attributes:
        poll_s: interval between readings of the conditions.
        hysteresis_s: how long the conditions must hold before the device is eligible.
    """

    poll_s: float
    hysteresis_s: float
    session_limit_s: float = SESSION_LIMIT_S
    policy: Policy = field(default_factory=lambda: DEFAULT_POLICY)


class CardWorn(Protocol):
    """Tells whether the card may be written any more today."""

    def __call__(self, *, working: bool) -> bool:
        """Whether it may not, by a job in progress or else."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The adapters to everything outside the driver.

    Attributes:
        jitter: returns random numbers in [0, 1).
        random_for: makes the random generators of sessions.
        show_model: receives each new model for the keyboard; None if there is no keyboard.
        releases: looks for releases of the agent; None where nothing could install one.
        remember_connection: stores the state of the connection, for ``status``.
        notice: returns what people should know though the device goes on, such as a damaged file; empty if nothing.
        turned: called at each iteration of the driver's loop, to feed a watchdog.
        card_worn: whether the card was written as much as it may be within a day, by a job in progress or not at all;
            jobs ask it from their thread.
    """

    clock: Clock
    jitter: Callable[[], float]
    random_for: RandomFor
    conditions: Conditions
    transport: Transport
    artifacts: Artifacts
    examples: ExampleStore
    journal: Journal
    worker: Worker
    desk: SessionDependencies
    trust: Trust
    sums: SumMachine
    limits: Limits = NO_LIMITS
    show_model: Callable[[Model], None] | None = None
    releases: Releases | None = None
    remember_connection: Callable[[str], None] = lambda _state: None
    notice: Callable[[], str] = lambda: ""
    turned: Callable[[], None] = lambda: None
    card_worn: CardWorn = lambda *, working: False  # noqa: ARG005
