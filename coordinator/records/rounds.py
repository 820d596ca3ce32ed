"""What is stored of a round: its reports and their chunks, its secure sum, and its summary for lists."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from nightjar.coordinator.rounds.round import AbandonCause, Phase, Round, dropouts
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.rounds.secure_sum import SumSession, Unmask
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.secure_sum.order import SumOrder


class StoredReport(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted report. (round, device, attempt) is unique."""

    round: int
    device: DeviceId
    attempt: int
    sha256: str  # hash of the frame, which is deleted when the round ends
    size_bytes: int
    num_examples: int  # the report's weight before capping
    steps: int
    loss: float  # mean training loss per target, nats
    seconds: float  # of training
    norm: float  # L2 norm of the decoded update
    received_s: float  # wall-clock time of arrival


class StoredSum(msgspec.Struct, frozen=True, kw_only=True):
    """The secure sum of an open round."""

    order: SumOrder  # what the devices are asked to give
    session: SumSession
    devices: Mapping[bytes, DeviceId]  # enrolled key -> device
    until_s: float  # deadline of the session's phase; infinite if the round's deadline decides
    asked_again: bool = False  # whether those that have not answered in this phase were asked again
    plan: Unmask | None = None  # which masks to remove, once it is known

    def key_of(self, device: DeviceId) -> bytes:
        """The enrolled key of a device; empty if it does not take part."""
        return next((key for key, each in self.devices.items() if each == device), b"")


class StoredChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A stored chunk of an incomplete report."""

    round: int
    device: DeviceId
    attempt: int
    number: int
    count: int
    total_bytes: int


class RoundSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A round as shown in lists; once it has ended, lists read this instead of its seats and reports."""

    number: int
    task: str = ""
    base_version: int  # the version that its devices trained or evaluated
    phase: Phase
    opened_at_s: float
    started_at_s: float | None  # when devices were selected; None if none were
    closed_at_s: float | None  # None while it is open
    cause: AbandonCause | None  # why it was abandoned, as a category for metrics
    reason: str  # what it is waiting for, or why it was abandoned, in words
    version: int | None  # the version that it made; None if it made none
    goal: int
    selected: int  # number of devices that got a seat
    accepted: int
    dropped: Mapping[str, int]  # cause -> number of dropouts, including earlier attempts
    mean_training_loss: float | None  # mean loss of the accepted reports, weighted by their examples
    report_bytes: int  # total size of all accepted reports
    report_bytes_median: int | None  # median size of an accepted report

    @classmethod
    def of(cls, state: Round, figures: Sequence[tuple[float, int, int]]) -> RoundSummary:
        """The summary of a round, from (loss, num_examples, size_bytes) of each accepted report."""
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


class CountedKind(enum.Enum):
    """What was read of the reports of a cohort."""

    BOTH = "updates"
    """Updates, and what the devices measured; so is every cohort of updates of former releases."""
    UPDATES = "updates only"
    FIGURES = "figures"
    SUM = "sum"


class CountedCohort(NamedTuple):
    """Devices whose reports of a round were read together, on weights with this hash."""

    round: int
    base_version: int
    weights: str
    kind: CountedKind
    devices: tuple[DeviceId, ...]
