"""Ports: the protocols through which the driver reaches the outside world.

``records`` has the values that go through them. The adapters are in ``storage``, ``mqtt`` and ``engine``; tests and
simulations use their own. An adapter translates and makes no decisions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.jobs import Job
from nightjar.coordinator.records.rounds import CountedCohort, CountedKind, StoredChunk, StoredReport, StoredSum
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.labelling import Labelling
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.pace_steering import Rhythm
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.versions.releases import Release, ReleaseHealth, Releases
from nightjar.models.signed_programs import SignedProgram
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Succession


class TaskStore(Protocol):
    """Access to tasks in an open transaction."""

    def tasks(self) -> list[TaskRecord]:
        """All tasks in order of creation."""

    def task(self, name: str) -> TaskRecord | None:
        """The task with this name; None if there is none."""

    def save_task(self, record: TaskRecord) -> None:
        """Insert or replace a task."""


class RoundStore(Protocol):
    """Access to rounds in an open transaction."""

    def open_rounds(self) -> list[Round]:
        """The open rounds, at most one per task, in ascending order."""

    def round(self, number: int) -> Round | None:
        """The round with this number, open or ended; None if there is none."""

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""


class SumStore(Protocol):
    """Access to secure sums in an open transaction."""

    def sums(self) -> dict[int, StoredSum]:
        """The secure sums of open rounds, by number of the round."""

    def save_sum(self, round_number: int, held: StoredSum) -> None:
        """Insert or replace the secure sum of a round."""

    def drop_sum(self, round_number: int) -> None:
        """Delete the secure sum of a round."""


class CohortStore(Protocol):
    """Which devices' reports were read together."""

    def counted_cohorts(self, weights: str, kinds: Collection[CountedKind]) -> list[CountedCohort]:
        """The cohorts of these kinds whose reports on weights with this hash were read together."""

    def count_cohort(self, cohort: CountedCohort) -> None:
        """Store that the reports of a cohort are read together."""


class ReportStore(Protocol):
    """Access to reports and optimizer states in an open transaction."""

    def reports(self, round_number: int) -> list[StoredReport]:
        """The accepted reports of a round, in ascending order of device id."""

    def add_report(self, report: StoredReport, frame: bytes) -> None:
        """Insert an accepted report and its frame."""

    def carry_reports(self, round_number: int, following: int, devices: Sequence[DeviceId]) -> None:
        """Move reports, frames and chunks of these devices from one round to another that is saved."""

    def drop_frames(self, round_number: int) -> None:
        """Delete the frames of a round, because updates reveal something about their owners; the reports stay."""

    def drop_state(self, sha256: str) -> None:
        """Delete an optimizer state if it exists."""


class ChunkStore(Protocol):
    """Access to the chunks of incomplete reports in an open transaction."""

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """The stored chunks of one report, in ascending order."""

    def chunk_frames(self, round_number: int, device: DeviceId, attempt: int) -> list[bytes]:
        """The frames of the stored chunks of one report, in ascending order."""

    def add_chunk(self, chunk: StoredChunk, frame: bytes) -> None:
        """Insert a chunk that is not stored yet, with its frame."""

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> None:
        """Delete the chunks of a round, or only those of one device."""


class DeviceStore(Protocol):
    """Access to devices and population statistics in an open transaction."""

    def lease(self, device: DeviceId) -> Lease | None:
        """The lease of a device; None if the device is unknown."""

    def save_lease(self, lease: Lease) -> None:
        """Insert or replace a lease."""

    def leases_after(self, limit: int, device: str) -> list[Lease]:
        """The devices whose names sort after ``device``, in ascending order."""

    def devices_with(self, labels: Sequence[str]) -> list[DeviceId]:
        """The devices that have all of these labels, sorted by name."""

    def keep_signed_program(self, signed: SignedProgram) -> None:
        """Keep the owner's signatures of a program; they replace earlier ones."""

    def labelling(self) -> Labelling:
        """The rules for labels."""

    def save_labelling(self, labelling: Labelling) -> None:
        """Replace the rules for labels."""

    def device_states(self) -> Mapping[tuple[str, str], int]:
        """(lifecycle state, reason) -> number of devices.

        Only ineligible devices are split by reason, and only the most frequent pairs are returned.
        """

    def devices_since(self, since_s: float) -> int:
        """The number of devices seen since a time."""

    def rhythm(self) -> Rhythm:
        """The check-ins by hour of the day, and the usual length of a round."""

    def save_rhythm(self, rhythm: Rhythm) -> None:
        """Replace the rhythm."""


class VersionStore(Protocol):
    """Access to model versions and their metrics in an open transaction."""

    def version(self, number: int) -> VersionRecord | None:
        """The version with this number; None if there is none."""

    def current_version(self, task: str | None = None) -> VersionRecord | None:
        """The current version of a task; without a task, the newest current version of any task."""

    def canary_version(self, task: str | None = None) -> VersionRecord | None:
        """The canary of a task; without a task, the newest canary of any task."""

    def training_version(self, task: str) -> VersionRecord | None:
        """The version that rounds of a task train from while keyboards do not get it; None if there is none."""

    def best_version(self, task: str, since: int) -> VersionRecord | None:
        """The version above ``since`` with the best top-1 share on held-out text, of those that devices have had."""

    def last_version_number(self) -> int:
        """Number of the newest version, whatever its stage."""

    def measured_since(self) -> int:
        """Newest version when the held-out text last changed; later ones were measured on the present text."""

    def versions(self, limit: int, before: int | None = None, task: str | None = None) -> list[VersionRecord]:
        """The newest versions, in ascending order; optionally only those below ``before``, or of one task."""

    def add_version(self, record: VersionRecord) -> None:
        """Insert a version."""

    def save_version(self, record: VersionRecord) -> None:
        """Replace a version."""

    def federated(self, version: int) -> Tally:
        """The on-device metrics of a version; an empty tally if there are none yet."""

    def save_federated(self, version: int, tally: Tally) -> None:
        """Replace the on-device metrics of a version."""


class ReleaseStore(Protocol):
    """Access to the agent's releases in an open transaction."""

    def releases(self) -> Releases:
        """All releases of the agent, the oldest version first."""

    def save_releases(self, releases: Releases) -> None:
        """Replace the releases."""

    def release_health(self, release: Release, now_s: float) -> ReleaseHealth:
        """The devices that tried a release, and the others that were heard of since it was started."""


class EffectStore(Protocol):
    """Access to pending effects, the numbers of orders, counters and the audit log in an open transaction."""

    def add_effect(self, effect: PendingEffect) -> int:
        """Insert an effect; returns its row number."""

    def begin_effects(self) -> list[tuple[int, PendingEffect, int]]:
        """The pending effects, each with the number of process starts at which it was pending, including this one."""

    def remove_effects(self, numbers: Sequence[int]) -> None:
        """Remove effects that are done."""

    def draw_number(self, now_s: float) -> int:
        """Draw the next number for orders to devices, above all earlier ones, including those in any backup."""

    def count(self, name: str, amount: int = 1) -> None:
        """Increase a counter."""

    def add_audit(self, entry: AuditEntry) -> None:
        """Add an entry to the audit log; the database assigns its number."""


class Transaction(
    TaskStore,
    RoundStore,
    SumStore,
    CohortStore,
    ReportStore,
    ChunkStore,
    DeviceStore,
    VersionStore,
    ReleaseStore,
    EffectStore,
    Protocol,
):
    """A transaction: its writes become durable together or not at all."""


class Repository(Protocol):
    """The database."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction that commits at the end of the block, and rolls back if the block raises an error.

        Raises:
            UnavailableError: the database cannot be read or written at the moment.
        """


class BlobStore(Protocol):
    """Immutable blobs, addressed by their SHA-256."""

    def put(self, data: bytes) -> str:
        """Store a blob durably and return its hash. Storing equal bytes again changes nothing.

        Raises:
            UnavailableError: the disk is full or broken.
        """

    def get(self, sha256: str) -> bytes:
        """Read and verify a blob.

        Raises:
            IntegrityError: the blob does not exist or is damaged.
        """


class PrivateStore(Protocol):
    """The worker's private data in the database, which is never served to anyone."""

    def frame(self, round_number: int, device: DeviceId, attempt: int) -> bytes:
        """The frame of a report.

        Raises:
            IntegrityError: the frame does not exist.
            UnavailableError: the database cannot be read at the moment.
        """

    def state(self, sha256: str) -> bytes:
        """The state of an optimizer.

        Raises:
            IntegrityError: the state does not exist.
            UnavailableError: the database cannot be read at the moment.
        """

    def keep_state(self, data: bytes) -> str:
        """Store the state of an optimizer durably and return its hash.

        Raises:
            UnavailableError: the database cannot be written at the moment.
        """


class Transport(Protocol):
    """Outgoing MQTT messages."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once, as long as the process lives; never blocks."""


class Worker(Protocol):
    """Does jobs outside the driver's thread, one at a time; results come back as events."""

    def submit(self, job: Job) -> None:
        """Queue a job; never blocks. If the worker dies, it is restarted and retries the job once before it fails."""


class Signer(Protocol):
    """Signs orders to devices; keys are in hex, and empty if there are none."""

    public: str
    recovery: str  # public part of the key that may appoint a new signing key
    successions: tuple[Succession, ...]  # the key changes that led to the present key, oldest first

    def sign(self, topic: str, text: str) -> str:
        """The signature of a message published on a topic, in hex; empty if orders are not signed."""


class Clock(Protocol):
    """Wall-clock time."""

    def now_s(self) -> float:
        """Seconds since 1970."""
