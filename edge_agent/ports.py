"""The seams between what the agent decides and the world: one Protocol per kind of thing outside.

Each has a real adapter (``shell``, ``emulator``) and a fake in the tests. Errors are those of :mod:`wire.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edge_agent.core.eligibility import Readings
from edge_agent.core.events import SendDropout
from edge_agent.core.lifecycle import State
from edge_agent.core.outbox import Parcel
from models.manifest import Manifest
from models.vocabulary import Vocabulary
from wire.codec import Sparse
from wire.identifiers import Sha256
from wire.parameters import Vector

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


class Clock(Protocol):
    """Time."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""

    def wall_s(self) -> float:
        """Seconds since 1970 UTC, as far as the device knows."""


class Conditions(Protocol):
    """What state the device is in."""

    def read(self) -> Readings:
        """Look now. Never raises: what cannot be found out is unknown."""


class Transport(Protocol):
    """Publishes towards the coordinator. What arrives goes to the driver's queue."""

    @property
    def connected(self) -> bool:
        """The broker has us and our subscriptions."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Hand a message to the connection, without waiting for it.

        Returns:
            False if there is no connection; nothing was kept then. True is no promise that it arrives.

        Raises:
            LocalProtocolError: the payload is larger than a publish may be.
        """

    def close(self, topic: str, payload: bytes) -> None:
        """Publish a retained farewell, and disconnect; at most about a second."""


@dataclass(frozen=True, slots=True)
class Model:
    """A version of the model that lies on this device, whole and verified.

    Attributes:
        sha256: name of the manifest.
        manifest: what belongs to it.
        program: path of the ``.tflite`` file.
        weights: path of the flat weights.
        vocabulary: path of the word list.
        mask: path of the coordinates of updates, if the manifest has some.
        lexicons: language -> path, of those that are on this device.
    """

    sha256: Sha256
    manifest: Manifest
    program: Path
    weights: Path
    vocabulary: Path
    mask: Path | None = None
    lexicons: Mapping[str, Path] = field(default_factory=dict, hash=False)


class Artifacts(Protocol):
    """The models on this device, and where they come from."""

    def current(self) -> Model | None:
        """The newest model that is whole on this device."""

    def fetch(self, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
        """Bring a model onto the device: only what is missing of it.

        Raises:
            UnavailableError: the coordinator cannot be reached, or ``should_stop`` said so.
            RemoteProtocolError: what came is not what the hash or the manifest promised, or needs a newer agent.
        """


class Trust(Protocol):
    """Whose orders this device obeys."""

    def announced(self, payload: bytes) -> None:
        """A coordinator announced its public key, in a message of kind ``announce``.

        Raises:
            UnavailableError: a key to be kept could not be stored.
        """

    def refused(self, why: str) -> None:
        """Note that an order was refused, for its owner to see. Any thread."""

    def check(self, kind: str, payload: bytes) -> None:
        """See whether the coordinator signed a message of a kind that travels sealed, and nothing newer. Any thread.

        Raises:
            RemoteProtocolError: it did not.
            UnavailableError: that cannot be found out now.
        """


class AnyCoordinator:
    """Trusts every sender: for simulations, in which nobody signs."""

    def announced(self, payload: bytes) -> None:
        """Nothing is kept."""

    def refused(self, why: str) -> None:
        """Nobody looks."""

    def check(self, kind: str, payload: bytes) -> None:
        """Every order is good."""


@dataclass(frozen=True, slots=True)
class TrainStep:
    """What one training step says.

    Attributes:
        loss: mean per target before the step, nats.
        targets: number of targets in the batch.
        hits: counted targets that were foreseen.
        gradient_norm: before clipping.
    """

    loss: float
    targets: float
    hits: float
    gradient_norm: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the model makes of a batch; sums, so that batches can be added.

    Attributes:
        loss_sum: nats over all targets.
        targets: number of targets.
        counted: number of targets that recall counts.
        top1: of these, foreseen first.
        top3: of these, foreseen among the first three.
    """

    loss_sum: float
    targets: float
    counted: float
    top1: float
    top3: float


class Program(Protocol):
    """A loaded model that can learn. One thread at a time."""

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> TrainStep:
        """One step of SGD on a batch: x, y (B, T) int32."""

    def evaluate(self, x: Ids, y: Ids) -> Evaluation:
        """Loss and recall on a batch: x, y (B, T) int32."""

    def save(self) -> Vector:
        """The weights, (n,) float32; not to be written to."""

    def restore(self, weights: Vector) -> None:
        """Take weights (n,) float32, from which ``delta`` is measured."""

    def reset(self) -> None:
        """Go back to the weights of the last ``restore``."""

    def delta(self) -> Vector:
        """How the weights moved since ``restore``, (n,) float32."""


class Predictor(Protocol):
    """Says how likely each word comes next. One thread at a time."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that it knows."""

    @property
    def version(self) -> int | None:
        """Of the model behind it; None if there is none."""

    def scores(self, finished: Sequence[str]) -> Floats:
        """Score every word of the vocabulary.

        Questions come as somebody types: mostly about the same words again, or about one more.

        Args:
            finished: the words of the sentence so far, as :func:`models.vocabulary.words` cuts them.

        Returns:
            (V,) float32, log-probabilities but for a constant that all have in common. Not to be changed by anybody.

        Raises:
            NightjarError: it cannot say, now or ever.
        """


@runtime_checkable
class Learner(Protocol):
    """A predictor that learns from what is sent."""

    def learn(self, text: str) -> None:
        """Take notice of a message; not while it predicts."""


@runtime_checkable
class FurtherProgram(Program, Protocol):
    """A program that can do more than plain SGD."""

    def begin(self) -> None:
        """Forget the momentum; the weights as they are now are what ``proximal`` pulls back to."""

    def train_momentum(
        self, x: Ids, y: Ids, learning_rate: float, clip_norm: float, momentum: float, proximal: float
    ) -> TrainStep:
        """As ``train``, with momentum and the proximal term of FedProx."""


class ExampleStore(Protocol):
    """The messages that were typed on this device. They never leave it."""

    def add(self, text: str) -> str:
        """Keep what may be kept of one message, and return that; the oldest go when there are too many."""

    def count(self) -> int:
        """How many are kept."""

    def texts(self) -> list[str]:
        """Those that a session learns from, oldest first."""


@dataclass(frozen=True, slots=True)
class OwnWord:
    """A word that this device's person types and no vocabulary has.

    Attributes:
        word: in lower case.
        written: as the person writes it in the middle of a sentence.
        count: how often it was typed.
    """

    word: str
    written: str
    count: int


@dataclass(frozen=True, slots=True)
class RecallCount:
    """How well the keyboard foresaw the words of one message. Numbers only.

    Attributes:
        typed_at_s: when it was sent, seconds since 1970 UTC.
        version: of the model; 0 if there was none yet.
        words: words typed.
        top1: of these, offered first before their first letter was typed.
        top3: of these, among the three.
    """

    typed_at_s: float
    version: int
    words: int
    top1: int
    top3: int


@dataclass(frozen=True, slots=True, eq=False)
class NewReport:
    """A report, and what error feedback continues with if it is accepted: stored together or not at all.

    Attributes:
        parcel: which report.
        frame: its exact bytes.
        layout: what the residual is bound to: the parameter layout and the task.
        residual: (n,) float32, the next residual; None if error feedback was not asked for.
        carried: what the report takes out of the residual: both together are all that was learned; None likewise.
    """

    parcel: Parcel
    frame: bytes
    layout: str
    residual: Vector | None
    carried: Sparse | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What becomes of the report in the outbox: it goes, and with error feedback something of it may stay.

    Attributes:
        adopt: the coordinator has the report (accepted now or before): the residual that was stored with it stands.
        put_back: it came too late and counts for nothing: that residual stands, and what the report carried is put back
            into it. With neither, the old residual stands and the update is gone.
    """

    adopt: bool
    put_back: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """What one event changes: written in one transaction.

    Attributes:
        lifecycle: the new state.
        report: goes into the outbox.
        settlement: empties the outbox.
        dropouts: messages that are to be sent even if the process dies now.
        deaths: how many processes in a row ended in the middle of a session; None leaves it as it is.
    """

    lifecycle: State
    report: NewReport | None = None
    settlement: Settlement | None = None
    dropouts: Sequence[SendDropout] = ()
    deaths: int | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the last process left.

    Attributes:
        lifecycle: its state; None on a new device.
        parcel: the report in the outbox, if any.
        deaths: how many processes in a row, before that one, ended in the middle of a session.
    """

    lifecycle: State | None
    parcel: Parcel | None
    deaths: int = 0


@dataclass(frozen=True, slots=True)
class AgentTally:
    """What the device did so far.

    Attributes:
        reports_sent: reports that the coordinator accepted.
        bytes_sent: total size of those.
        last_report_bytes: size of the newest report; None if there was none.
        last_trained_at_s: when a training last ended, seconds since 1970 UTC; None if never.
    """

    reports_sent: int = 0
    bytes_sent: int = 0
    last_report_bytes: int | None = None
    last_trained_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class PendingDropout:
    """A dropout that was not handed to a connection yet."""

    number: int
    dropout: SendDropout


class Journal(Protocol):
    """What must survive a power cut."""

    def load(self) -> Remembered:
        """What the last process left."""

    def commit(self, change: Change) -> None:
        """Write a change, whole or not at all.

        Raises:
            UnavailableError: it could not be written; nothing was.
        """

    def frame(self) -> bytes:
        """The bytes of the report in the outbox.

        Raises:
            LocalProtocolError: the outbox is empty.
        """

    def residual(self, layout: str) -> Vector | None:
        """The adopted residual for a parameter layout, (n,) float32; None if there is none."""

    def pending_dropouts(self) -> list[PendingDropout]:
        """Dropouts that still have to be sent, oldest first."""

    def dropout_sent(self, number: int) -> None:
        """Forget a dropout that was handed to the connection."""

    def tally(self) -> AgentTally:
        """What the device did so far."""


LoadProgram = Callable[[Model], Program]
"""Loads a program with its weights restored. Raises RemoteProtocolError if the files cannot be run."""

RandomFor = Callable[[int, int], np.random.Generator]
"""(round, attempt) -> the generator for shuffling and rounding in that session."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work for the worker thread. ``number`` comes back with the outcome."""

    number: int
    work: Callable[[Callable[[], bool]], object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The broker has us and our subscriptions."""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection ended, or could not be made."""

    reason: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message came, not looked at yet."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The outcome of a job: what it returned, or the exception that it raised."""

    number: int
    outcome: object


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process was asked to end."""


@dataclass(frozen=True, slots=True)
class WipeAsked:
    """The person wants whatever was typed, and whatever came of it, deleted.

    Attributes:
        wipe: deletes it; on the driver's thread, so that nothing is being written at that moment.
        done: learns that it is done, or why it could not be.
    """

    wipe: Callable[[], None]
    done: Future[None]


Item = LinkUp | LinkDown | Arrived | WorkDone | StopAsked | WipeAsked
"""What adapters put into the driver's queue, from any thread."""


class Worker(Protocol):
    """Runs jobs one after the other, elsewhere; outcomes go to the driver's queue."""

    def start(self, job: Job) -> None:
        """Queue a job: ``work(should_stop)`` is called, and what it returns or raises is the outcome."""

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of that job true; a job that did not begin never does."""
