"""What the driver needs of the world: protocols, and the records that it keeps.

Adapters lie in ``shell``; tests and simulations bring their own. An adapter translates and decides nothing.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from coordinator.core.lease import Lease
from coordinator.core.pace import Rhythm
from coordinator.core.round import Phase, Round
from coordinator.effects import PendingEffect
from coordinator.inbox import MessageArrived
from coordinator.jobs import Job, Metrics
from coordinator.operations import AuditEntry, Pause
from wire.identifiers import DeviceId


class StoredReport(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted report. (round, device, attempt) is unique.

    Attributes:
        round: number of the round.
        device: whose it is.
        attempt: of the device in the round.
        sha256: hash of the frame in the private store; the frame is deleted when the round is over.
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
    """A chunk of a report that is not complete yet; its frame lies in the private store under ``sha256``."""

    round: int
    device: DeviceId
    attempt: int
    number: int
    count: int
    total_bytes: int
    sha256: str


class VersionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the model.

    Attributes:
        version: 0 is the imported one; each committed round adds one.
        manifest: hash of its manifest, an artifact.
        round: the round that made it; None for the imported one.
        optimizer_state: hash of the server optimizer's state after it, in the private store.
        created_s: wall-clock time.
        metrics: None until measured, or for good if there is no evaluation text.
    """

    version: int
    manifest: str
    round: int | None = None
    optimizer_state: str | None = None
    created_s: float = 0.0
    metrics: Metrics | None = None


class RoundSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A round as the status page shows it; ``loss`` and ``report_bytes_median`` are of its accepted reports."""

    state: Round
    mean_training_loss: float | None
    report_bytes_median: int | None

    @classmethod
    def of(cls, state: Round, figures: Sequence[tuple[float, int, int]]) -> RoundSummary:
        """The summary of a round with these accepted reports.

        Args:
            state: the round.
            figures: (loss, num_examples, size_bytes) of each report.
        """
        if not figures:
            return cls(state=state, mean_training_loss=None, report_bytes_median=None)
        examples = sum(num_examples for _, num_examples, _ in figures)
        return cls(
            state=state,
            mean_training_loss=sum(loss * num_examples for loss, num_examples, _ in figures) / examples,
            report_bytes_median=int(statistics.median(size_bytes for _, _, size_bytes in figures)),
        )

    @property
    def phase(self) -> Phase:
        """Where the round is."""
        return self.state.phase


class Transaction(Protocol):
    """Reads and writes that become durable together, or not at all."""

    def open_round(self) -> Round | None:
        """The round that is not over; None between tasks."""

    def round(self, number: int) -> Round | None:
        """A round, over or not."""

    def last_round_number(self) -> int:
        """Number of the newest round; 0 before the first."""

    def rounds_in(self, phase: Phase) -> int:
        """How many rounds are in a phase."""

    def save_round(self, state: Round) -> None:
        """Insert or replace a round."""

    def reports(self, round_number: int) -> list[StoredReport]:
        """Accepted reports of a round, in ascending order of devices."""

    def add_report(self, report: StoredReport) -> None:
        """Insert an accepted report."""

    def chunks(self, round_number: int, device: DeviceId, attempt: int) -> list[StoredChunk]:
        """Chunks of one report, in ascending order."""

    def add_chunk(self, chunk: StoredChunk) -> None:
        """Insert a chunk that is not there yet."""

    def drop_chunks(self, round_number: int, device: DeviceId | None = None) -> list[str]:
        """Delete the chunks of a round, or of one of its devices.

        Returns:
            The hashes that no other chunk names: two devices may have sent the same bytes.
        """

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

    def version(self, number: int) -> VersionRecord | None:
        """A version."""

    def current_version(self) -> VersionRecord | None:
        """The newest version."""

    def add_version(self, record: VersionRecord) -> None:
        """Insert a version."""

    def set_manifest(self, version: int, manifest: str) -> None:
        """The same weights under another manifest."""

    def set_metrics(self, version: int, metrics: Metrics) -> None:
        """Note how good a version is."""

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

    def rhythm(self) -> Rhythm:
        """When devices check in, and how long rounds take."""

    def save_rhythm(self, rhythm: Rhythm) -> None:
        """Replace it."""

    def pause(self) -> Pause | None:
        """Why the task is paused; None if it is not."""

    def save_pause(self, pause: Pause | None) -> None:
        """Replace it."""

    def add_audit(self, entry: AuditEntry) -> None:
        """Note a change; the database gives it its number."""


class Overview(Protocol):
    """Reads for people: the status page."""

    def counters(self) -> Mapping[str, int]:
        """Every counter by name."""

    def leases(self, limit: int) -> list[Lease]:
        """The devices seen last, in ascending order of their names."""

    def leases_after(self, limit: int, device: str) -> list[Lease]:
        """The devices whose names come after that one, in ascending order."""

    def recent_rounds(self, limit: int, before: int | None = None) -> list[RoundSummary]:
        """The newest rounds, in ascending order; only those with a number below ``before``."""

    def versions(self, limit: int, before: int | None = None) -> list[VersionRecord]:
        """The newest versions, in ascending order; only those with a number below ``before``."""

    def audit(self, limit: int, before: int | None = None) -> list[AuditEntry]:
        """The newest changes, newest first; only those with a number below ``before``."""

    def accepted_reports(self) -> int:
        """Accepted reports of all rounds."""

    def report_bytes_median(self) -> int | None:
        """Median length of the newest accepted reports."""


class View(Transaction, Overview, Protocol):
    """Everything that can be asked."""


class Repository(Protocol):
    """The database."""

    def transaction(self) -> AbstractContextManager[View]:
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

    def put_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store all of them durably, each under its hash, which the caller has found; cheaper than one by one.

        Raises:
            UnavailableError: no room, or a broken disk; some of them may be stored.
        """

    def get(self, sha256: str) -> bytes:
        """Read and verify.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
        """

    def delete(self, sha256: str) -> None:
        """Delete it if it is there.

        Raises:
            UnavailableError: a broken disk.
        """


class Standing(enum.Enum):
    """What is known of a message that came."""

    CLEAR = "clear"
    CONDEMNED = "condemned"
    """Process after process ended while it had it in hand: it is not handled any more."""
    UNTOUCHABLE = "untouchable"
    """Even refusing it did."""


class Quarantine(Protocol):
    """Knows the messages that end the process."""

    def take(self, message: MessageArrived) -> None:
        """It is about to be handled: should the process die, the next one knows.

        Raises:
            UnavailableError: no room, or a broken disk.
        """

    def let_go(self) -> None:
        """It was handled, and we live."""

    def judge(self, message: MessageArrived) -> Standing:
        """What is known of a message."""

    def keep(self, message: MessageArrived) -> str:
        """Keep a condemned message for a person to look at; where it is kept.

        Raises:
            UnavailableError: no room, or a broken disk.
        """


class Transport(Protocol):
    """MQTT, outgoing."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once while the process lives; never blocks."""


class Worker(Protocol):
    """Does jobs elsewhere, one after the other; results come back as events."""

    def submit(self, job: Job) -> None:
        """Queue a job; never blocks. A lost worker is replaced and its job done once more, then reported as failed."""


class Clock(Protocol):
    """Wall-clock time."""

    def now_s(self) -> float:
        """Seconds since 1970."""
