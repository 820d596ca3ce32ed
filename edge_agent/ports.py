"""The agent's ports: the interfaces between its decisions and the outside world, one Protocol for each.

Each has a real adapter (``shell``, ``emulator``) and a fake in the tests. Errors come from :mod:`wire.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from edge_agent.core.eligibility import Readings
from edge_agent.core.events import SendDropout
from edge_agent.core.lifecycle import State
from edge_agent.core.outbox import Parcel
from edge_agent.core.privacy_ledger import LedgerEntry
from edge_agent.core.summing import SumRequest, SumStep
from models.manifest import Manifest
from models.source import Source
from models.vocabulary import Vocabulary
from wire.codec import Sparse
from wire.identifiers import Sha256
from wire.parameters import Vector

Ids = npt.NDArray[Any]
"""(B, T) int32 ids of words, or (B, ...) float32 rows and their (B,) targets."""
Floats = npt.NDArray[np.float32]


class Clock(Protocol):
    """Source of time."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""

    def wall_s(self) -> float:
        """Seconds since 1970 UTC according to the device's clock, which may be wrong."""


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


@dataclass(frozen=True, slots=True)
class Model:
    """A version of the model on this device, complete and verified.

    Attributes:
        sha256: hash of the manifest, which names the model.
        manifest: the manifest, which lists the model's files.
        program: path of the ``.tflite`` file.
        weights: path of the flat weights.
        vocabulary: path of the word list.
        bases: path of the bases of updates for secure sums, if the manifest has some.
        lexicons: the lexicons on this device, language -> path.
        ngram: the n-gram model; None if this device has none.
    """

    sha256: Sha256
    manifest: Manifest
    program: Path
    weights: Path
    vocabulary: Path
    bases: Path | None = None
    lexicons: Mapping[str, Path] = field(default_factory=dict, hash=False)
    ngram: Path | None = None


class Artifacts(Protocol):
    """The store of models on this device, which downloads new ones."""

    def current(self) -> Model | None:
        """The newest model that is complete on this device."""

    def fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        """Download a model: only the parts that the device does not have yet.

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


@dataclass(frozen=True, slots=True)
class TrainStep:
    """Result of one training step.

    Attributes:
        loss: mean loss per target before the step, nats.
        targets: number of targets in the batch.
        hits: counted targets that were predicted.
        gradient_norm: norm of the gradient before clipping.
    """

    loss: float
    targets: float
    hits: float
    gradient_norm: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of evaluating a batch, as sums, so that batches can be added.

    Attributes:
        loss_sum: loss summed over all targets, nats.
        targets: number of targets.
        counted: number of targets that count for recall.
        top1: counted targets that were predicted first.
        top3: counted targets that were among the first three predictions.
    """

    loss_sum: float
    targets: float
    counted: float
    top1: float
    top3: float


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
            finished: the words of the sentence so far, as :func:`models.vocabulary.words` cuts them.

        Returns:
            (V,) float32, log-probabilities up to a common additive constant; treat as read-only.

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
        """The task types of this agent, as in :attr:`wire.messages.CheckIn.task_types`."""


@dataclass(frozen=True, slots=True)
class OwnWord:
    """A word that the user types and that the vocabulary lacks.

    Attributes:
        word: in lower case.
        written: the word as the user writes it in the middle of a sentence.
        count: how often it was typed.
    """

    word: str
    written: str
    count: int


@dataclass(frozen=True, slots=True)
class RecallCount:
    """How well the keyboard predicted the words of one message. Contains numbers only.

    Attributes:
        typed_at_s: when the message was sent, seconds since 1970 UTC.
        version: version of the model; 0 if there was none yet.
        words: number of words typed.
        top1: words that were the first suggestion before their first letter was typed.
        top3: words that were among the three suggestions before their first letter was typed.
    """

    typed_at_s: float
    version: int
    words: int
    top1: int
    top3: int


@dataclass(frozen=True, slots=True, eq=False)
class NewReport:
    """A report, and the residual with which error feedback continues if it is accepted; stored atomically.

    Attributes:
        parcel: identifies the report.
        frame: its exact bytes.
        layout: what the residual is bound to: the parameter layout and the task.
        residual: (n,) float32, the next residual; None without error feedback.
        carried: the part of the update that the report carries; the update is ``carried`` plus ``residual``. None
            without error feedback.
    """

    parcel: Parcel
    frame: bytes
    layout: str
    residual: Vector | None
    carried: Sparse | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How the report leaves the outbox, and what error feedback keeps of it.

    Attributes:
        adopt: the coordinator has accepted the report, now or before: the residual stored with the report is adopted.
        put_back: the report came too late to count: the residual stored with the report is adopted, and the part that
            the report carried is added back to it. With neither flag, the old residual stays and the update is lost.
    """

    adopt: bool
    put_back: bool = False


class SumState(msgspec.Struct, frozen=True):
    """The last secure sum that the device joined.

    Attributes:
        number: number in its order.
        round: its round; with the number, what a device joins only once.
        session: its session.
        phase: name of the machine's state (:mod:`edge_agent.core.summing`).
        state: the machine's state; empty if the device answers no more.
    """

    number: int
    round: int
    session: bytes
    phase: str
    state: bytes


class SumMachine(Protocol):
    """Makes the steps of secure sums with the device's enrolled key; keeps no state."""

    def __call__(self, request: SumRequest) -> SumStep:
        """Make a step.

        Raises:
            UnavailableError: it cannot be made now, or the device is not enrolled.
        """


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one event, written in one transaction.

    Attributes:
        lifecycle: the new state.
        report: new report for the outbox; None for none.
        settlement: settles the report and empties the outbox; None leaves the outbox as it is.
        dropouts: messages that are to be sent even if the process dies now.
        deaths: how many processes in a row died during a session; None leaves the count as it is.
        charged: what the report costs of the device's privacy; None for nothing.
        summing: new state of the secure sum; None leaves it as it is.
    """

    lifecycle: State
    report: NewReport | None = None
    settlement: Settlement | None = None
    dropouts: Sequence[SendDropout] = ()
    deaths: int | None = None
    charged: LedgerEntry | None = None
    summing: SumState | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """The state that the last process left.

    Attributes:
        lifecycle: the last lifecycle state; None on a new device.
        parcel: the report in the outbox, if any.
        deaths: how many processes in a row, before the last one, died during a session.
        summing: the last secure sum that the device joined, if any.
    """

    lifecycle: State | None
    parcel: Parcel | None
    deaths: int = 0
    summing: SumState | None = None


@dataclass(frozen=True, slots=True)
class PendingDropout:
    """A dropout that has not been handed to the connection yet."""

    number: int
    dropout: SendDropout


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


LoadProgram = Callable[[Model], Program]
"""Loads a program with its weights restored. Raises RemoteProtocolError if the files cannot be run."""

RandomFor = Callable[[int, int], np.random.Generator]
"""(round, attempt) -> the generator for shuffling and rounding in that session."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job for the worker thread. ``number`` is returned with the outcome."""

    number: int
    work: Callable[[Callable[[], bool]], object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LinkUp:
    """We are connected, and the broker has granted our subscriptions."""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection was lost, or could not be established."""

    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message arrived; it is not decoded yet."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The outcome of a job: what it returned, or the exception that it raised."""

    number: int
    outcome: object


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process was asked to stop."""


@dataclass(frozen=True, slots=True)
class WipeAsked:
    """The user asked to delete all typed text and everything derived from it.

    Attributes:
        wipe: deletes everything; runs on the driver's thread, so that no write runs at the same time.
        done: resolved when everything is deleted, or with the error.
    """

    wipe: Callable[[], None]
    done: Future[None]


@dataclass(frozen=True, slots=True)
class StandingTold:
    """The coordinator answered over HTTPS why it refuses this device; empty if it does not."""

    refusal: str


Item = LinkUp | LinkDown | StandingTold | Arrived | WorkDone | StopAsked | WipeAsked
"""An item that adapters put into the driver's queue, from any thread."""


class Worker(Protocol):
    """Runs jobs one after the other, off the driver's thread; outcomes go to the driver's queue."""

    def start(self, job: Job) -> None:
        """Queue a job: ``work(should_stop)`` is called, and its result or exception is the outcome."""

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of this job return true; a job that has not started is skipped."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The outcome of a look.

    Attributes:
        text: what was found or done, for the log.
        refused: what was refused, and why: a release, or metadata that does not verify; empty if nothing was.
    """

    text: str
    refused: str = ""


class Releases(Protocol):
    """Looks for releases of the agent."""

    def due(self, now_s: float, *, free: bool) -> bool:
        """Whether it is time to look; ``free`` is whether fetching costs neither battery nor money."""

    def ended(self, now_s: float, *, whole: bool) -> None:
        """Note that a look ended; one that was stopped is resumed as soon as it may be."""

    def look(self, free: bool, should_stop: Callable[[], bool]) -> Looked:
        """Look for a release, fetch what may be fetched now, and hand it over to who installs it.

        Raises:
            UnavailableError: it failed, or was stopped.
        """
