"""What the driver needs of the world: protocols, and the records that it keeps.

Adapters lie in ``storage``, ``mqtt`` and ``engine``; tests and simulations bring their own. An adapter translates and
decides nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from coordinator.engine.effects import PendingEffect
from coordinator.engine.jobs import Job, VersionMetrics
from coordinator.learning.device_metrics import Tally
from coordinator.learning.optimizers import OptimizerChoice
from coordinator.rounds.lease import Lease
from coordinator.rounds.pace_steering import Rhythm
from coordinator.rounds.round import AbandonCause, Phase, Round, dropouts
from coordinator.rounds.seats import SeatState
from coordinator.tasks.operations import AuditEntry
from coordinator.tasks.settings import TaskSettings
from coordinator.tasks.task import Task
from coordinator.versions.rollout import Rollout, Stage
from wire.identifiers import DeviceId
from wire.messages import CodecChoice, Succession


class StoredReport(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted report. (round, device, attempt) is unique.

    Attributes:
        round: number of the round.
        device: whose it is.
        attempt: of the device in the round.
        sha256: of the frame, which is deleted when the round is over.
        size_bytes: length of the frame.
        num_examples: its weight before capping.
        steps: optimizer steps done.
        loss: mean training loss per target, nats.
        seconds: time spent in training.
        norm: L2 norm of the decoded update.
        received_s: wall-clock time.
    """

    round: int
    device: DeviceId
    attempt: int
    sha256: str
    size_bytes: int
    num_examples: int
    steps: int
    loss: float
    seconds: float
    norm: float
    received_s: float


class StoredChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of a report that is not complete yet."""

    round: int
    device: DeviceId
    attempt: int
    number: int
    count: int
    total_bytes: int


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task: what has become of it, and what it does."""

    state: Task
    settings: TaskSettings

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """What a version was made of.

    Attributes:
        parent: the version that its reports were trained from; None for the imported one.
        reports: how many are in the mean.
        reports_sha256: sha256 over the hashes of their frames, each in hex, in ascending order of devices.
        seed: of the coordinator.
        code_version: of this program.
        optimizer: of the server.
        codec: of the updates.
    """

    parent: int | None = None
    reports: int = 0
    reports_sha256: str = ""
    seed: int = 0
    code_version: str = ""
    optimizer: OptimizerChoice | None = None
    codec: CodecChoice | None = None


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the model.

    Attributes:
        version: counted over all tasks; 0 is the imported one, each committed round of a training task adds one.
        task: whose version it is.
        manifest: hash of its manifest, an artifact.
        round: the round that made it; None for the imported one.
        optimizer_state: hash of the server optimizer's state after it.
        clip_norm: that updates against it are clipped to; None for one that no round made.
        created_s: wall-clock time.
        metrics: None until measured, or for good if there is no evaluation text.
        rollout: where it is, and why.
        lineage: what it was made of; None for an imported version.
    """

    version: int
    task: str = ""
    manifest: str
    round: int | None = None
    optimizer_state: str | None = None
    clip_norm: float | None = None
    created_s: float = 0.0
    metrics: VersionMetrics | None = None
    rollout: Rollout = Rollout(stage=Stage.CURRENT)
    lineage: Lineage | None = None


class RoundSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A round as lists show it: what is left of it once it is over, without a walk over its seats and reports.

    Attributes:
        number: of the round.
        task: whose it is.
        base_version: the version that its devices trained, or tried.
        phase: where it is.
        opened_at_s: wall-clock time, like the following two.
        started_at_s: when devices were selected; None if none were.
        closed_at_s: when it was over; None while it is not.
        cause: why it was abandoned, for counting.
        reason: what it waits for, or why it was abandoned.
        version: the version that it made.
        goal: reports that were wanted.
        selected: devices that were given a seat.
        accepted: of these, those whose report counts.
        dropped: cause -> dropouts, those of earlier attempts included.
        mean_training_loss: of the accepted reports, weighted by their examples.
        report_bytes: of all accepted reports.
        report_bytes_median: of one.
    """

    number: int
    task: str = ""
    base_version: int
    phase: Phase
    opened_at_s: float
    started_at_s: float | None
    closed_at_s: float | None
    cause: AbandonCause | None
    reason: str
    version: int | None
    goal: int
    selected: int
    accepted: int
    dropped: Mapping[str, int]
    mean_training_loss: float | None
    report_bytes: int
    report_bytes_median: int | None

    @classmethod
    def of(cls, state: Round, figures: Sequence[tuple[float, int, int]]) -> RoundSummary:
        """The summary of a round with these accepted reports.

        Args:
            state: the round.
            figures: (loss, num_examples, size_bytes) of each report.
        """
        examples = sum(num_examples for _, num_examples, _ in figures)
        sizes = [size_bytes for _, _, size_bytes in figures]
        return cls(
            number=state.number,
            task=state.task,
            base_version=state.base_version,
            phase=state.phase,
            opened_at_s=state.opened_at_s,
            started_at_s=state.started_at_s,
            closed_at_s=state.closed_at_s,
            cause=state.cause,
            reason=state.explain(),
            version=state.version,
            goal=state.rules.goal,
            selected=len(state.seats),
            accepted=len(state.devices(SeatState.REPORTED)),
            dropped=dict(sorted((cause.value, count) for cause, count in dropouts(state).items())),
            mean_training_loss=sum(loss * count for loss, count, _ in figures) / examples if examples else None,
            report_bytes=sum(sizes),
            report_bytes_median=int(statistics.median(sizes)) if sizes else None,
        )


class TaskStore(Protocol):
    """Tasks of an open transaction."""

    def tasks(self) -> list[TaskRecord]:
        """Every task, in the order in which they were made."""

    def task(self, name: str) -> TaskRecord | None:
        """A task."""

    def save_task(self, record: TaskRecord) -> None:
        """Insert or replace a task."""


class RoundStore(Protocol):
    """Rounds of an open transaction."""

    def open_rounds(self) -> list[Round]:
        """The rounds that are not over, one of each task at most, in ascending order."""

    def round(self, number: int) -> Round | None:
        """A round, over or not."""

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""

    def rounds_in(self, phase: Phase) -> int:
        """How many rounds are in a phase."""

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""


class ReportStore(Protocol):
    """Reports, whole or in chunks, and what was made of them."""

    def reports(self, round_number: int) -> list[StoredReport]:
        """Accepted reports of a round, in ascending order of devices."""

    def add_report(self, report: StoredReport, frame: bytes) -> None:
        """Insert an accepted report and its frame."""

    def drop_frames(self, round_number: int) -> None:
        """Delete the frames of a round: an update says something about its owner. The reports stay."""

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """Chunks of one report, in ascending order."""

    def chunk_frames(self, round_number: int, device: DeviceId, attempt: int) -> list[bytes]:
        """Their frames, in the same order."""

    def add_chunk(self, chunk: StoredChunk, frame: bytes) -> None:
        """Insert a chunk that is not there yet, and its frame."""

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> None:
        """Delete the chunks of a round, or of one of its devices."""

    def drop_state(self, sha256: str) -> None:
        """Delete the state of an optimizer if it is there."""


class DeviceStore(Protocol):
    """Devices: each by itself, and as a population."""

    def lease(self, device: DeviceId) -> Lease | None:
        """What is known of a device."""

    def save_lease(self, lease: Lease) -> None:
        """Insert or replace a device."""

    def device_states(self) -> Mapping[tuple[str, str], int]:
        """How many devices are in which (lifecycle state, reason).

        The reason is only told apart for ineligible devices, and only the most frequent pairs are told.
        """

    def devices_since(self, since_s: float) -> int:
        """How many devices were seen since."""

    def rhythm(self) -> Rhythm:
        """When devices check in, and how long rounds take."""

    def save_rhythm(self, rhythm: Rhythm) -> None:
        """Replace it."""


class VersionStore(Protocol):
    """Versions of the model, and what was measured of them."""

    def version(self, number: int) -> VersionRecord | None:
        """A version."""

    def current_version(self, task: str | None = None) -> VersionRecord | None:
        """The version of a task that devices have; of all tasks without one."""

    def canary_version(self, task: str | None = None) -> VersionRecord | None:
        """The version of a task that some devices try; of all tasks without one."""

    def last_version_number(self) -> int:
        """Number of the newest version, wherever it is."""

    def measured_since(self) -> int:
        """Versions with a higher number were measured on the present held-out text."""

    def versions(self, limit: int, before: int | None = None, task: str | None = None) -> list[VersionRecord]:
        """The newest versions, in ascending order; only those with a number below ``before``, and of a task."""

    def add_version(self, record: VersionRecord) -> None:
        """Insert a version."""

    def save_version(self, record: VersionRecord) -> None:
        """Replace a version."""

    def federated(self, version: int) -> Tally:
        """What devices found of a version; nothing yet is an empty tally."""

    def save_federated(self, version: int, tally: Tally) -> None:
        """Replace it."""

    def draw_number(self, now_s: float) -> int:
        """The number of what devices are to obey from now on: above all before, those in any backup included."""


class EffectStore(Protocol):
    """Effects that are not done, counters, and the audit log."""

    def effects(self) -> list[tuple[int, PendingEffect]]:
        """Effects that were not done, in the order in which they were added."""

    def add_effect(self, effect: PendingEffect) -> int:
        """Insert an effect; its number."""

    def begin_effects(self) -> list[tuple[int, PendingEffect, int]]:
        """As ``effects``, each with how often a process began with it still to be done, this time included."""

    def remove_effects(self, numbers: Sequence[int]) -> None:
        """These effects are done."""

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""

    def add_audit(self, entry: AuditEntry) -> None:
        """Note a change; the database gives it its number."""


class Transaction(TaskStore, RoundStore, ReportStore, DeviceStore, VersionStore, EffectStore, Protocol):
    """Reads and writes that become durable together, or not at all."""


class Repository(Protocol):
    """The database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin; commit at the end of the block, roll back if it raises.

        Raises:
            UnavailableError: the database cannot be read or written now.
        """


class BlobStore(Protocol):
    """Immutable bytes by their sha256."""

    def put(self, data: bytes) -> str:
        """Store durably; the hash. Storing the same bytes again changes nothing.

        Raises:
            UnavailableError: no room, or a broken disk.
        """

    def get(self, sha256: str) -> bytes:
        """Read and verify.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
        """


class PrivateStore(Protocol):
    """What the worker reads and writes of the database, and nobody may fetch."""

    def frame(self, round_number: int, device: DeviceId, attempt: int) -> bytes:
        """The frame of a report.

        Raises:
            IntegrityError: it is not there.
            UnavailableError: the database cannot be read now.
        """

    def state(self, sha256: str) -> bytes:
        """The state of an optimizer.

        Raises:
            IntegrityError: it is not there.
            UnavailableError: the database cannot be read now.
        """

    def keep_state(self, data: bytes) -> str:
        """Store the state of an optimizer durably; its hash.

        Raises:
            UnavailableError: the database cannot be written now.
        """


class Transport(Protocol):
    """MQTT, outgoing."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once while the process lives; never blocks."""


class Worker(Protocol):
    """Does jobs elsewhere, one after the other; results come back as events."""

    def submit(self, job: Job) -> None:
        """Queue a job; never blocks. A lost worker is replaced and its job done once more, then reported as failed."""


class Signer(Protocol):
    """Signs what devices obey.

    Attributes:
        public: the public key, in hex; empty if nothing is signed.
        recovery: the public key that may name another one, in hex; empty if there is none.
        successions: how the key came to be, oldest first.
    """

    public: str
    recovery: str
    successions: tuple[Succession, ...]

    def sign(self, topic: str, text: str) -> str:
        """The signature of a message that is published on a topic, in hex; empty if nothing is signed."""


class Clock(Protocol):
    """Wall-clock time."""

    def now_s(self) -> float:
        """Seconds since 1970."""
