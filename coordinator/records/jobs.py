"""Jobs for the worker process and their results, as values that are sent as lines of JSON."""

from __future__ import annotations

import msgspec

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.learning.strategies import StrategyChoice
from nightjar.coordinator.rounds.secure_sum import Unmask
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.models.manifest import Artifact, Transfer
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice
from nightjar.wire.secure_sum.order import SumOrder


class ReportFile(msgspec.Struct, frozen=True):
    """A stored report that a job reads; ``staleness`` is the number of versions published since its base."""

    device: DeviceId
    attempt: int
    num_examples: int
    staleness: int = 0


class SummedReports(msgspec.Struct, frozen=True):
    """The reports are masked updates.

    Attributes:
        order: what the devices were asked to give.
        plan: which masks to remove from their sum.
    """

    order: SumOrder
    plan: Unmask


class AnnouncedVersion(msgspec.Struct, frozen=True):
    """The announced version, where rounds train from another one.

    Attributes:
        manifest: hash of its manifest.
        found: what devices measured of the version that rounds train from, before this round.
    """

    version: int
    manifest: str
    found: Tally


class AggregationJob(msgspec.Struct, frozen=True, tag=True):
    """Average the reports of a round and measure the result.

    Attributes:
        manifest: hash of the manifest of the base version.
        optimizer_state: hash of the optimizer's state; None in the first round.
        clip_norm: L2 norm that updates are clipped to; None means the median norm of this round's updates, or with
            noise the norm in its terms.
        bases: hashes of the manifests of earlier versions, newest first; devices may hold their weights.
        announced: the announced version; None if it is the base version.
        seed: seed for the next bases and for rounding.
        committed: number of rounds that the task has committed; the learning-rate schedule depends on it.
        evaluation: path of the text to measure the result on; None skips the evaluation.
        summed: how to unmask the sum of the reports; None if each can be read.
        noise: how the sum is noised; None without differential privacy.
        step: number of noised rounds before this one.
        without_figures: whether what the devices measured stays unread.
    """

    round: int
    manifest: str
    reports: tuple[ReportFile, ...]
    minimum: int
    codec: CodecChoice
    strategy: StrategyChoice
    optimizer_state: str | None
    evaluation: str | None
    clip_norm: float | None = None
    downlink: str = "f32"
    bases: tuple[str, ...] = ()
    announced: AnnouncedVersion | None = None
    seed: int = 0
    committed: int = 0
    summed: SummedReports | None = None
    noise: NoiseTerms | None = None
    step: int = 0
    staleness: str = "constant"
    without_figures: bool = False


class EvaluationJob(msgspec.Struct, frozen=True, tag=True):
    """Measure a version on the text at the path ``evaluation``."""

    version: int
    manifest: str
    evaluation: str


class FiguresJob(msgspec.Struct, frozen=True, tag=True):
    """Add up the on-device metrics of a round's base version; updates are not read."""

    round: int
    reports: tuple[ReportFile, ...]


Job = AggregationJob | EvaluationJob | FiguresJob


class AggregationDone(msgspec.Struct, frozen=True, tag=True):
    """An aggregation succeeded: its mean was applied to the weights.

    Attributes:
        weights: hash of the new weights, which are stored with the artifacts.
        size_bytes: length of the file of the new weights.
        optimizer_state: hash of the optimizer's new state; None if it keeps none.
        clip_norm: L2 norm that the next round's updates are clipped to; None if every update so far was zero.
        metrics: metrics of the new weights; None if they were not measured.
        transfers: smaller downloads for devices that hold an earlier version.
        bases: what the next updates are encoded with, for secure sums.
        unreadable: devices whose reports could not be decoded and are not in the mean.
        left_out: devices whose updates a robust aggregation rejected.
        federated: sum of the on-device metrics of the base version.
    """

    round: int
    weights: str
    size_bytes: int
    optimizer_state: str | None
    metrics: VersionMetrics | None
    clip_norm: float | None = None
    unreadable: tuple[DeviceId, ...] = ()
    left_out: tuple[DeviceId, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    bases: Artifact | None = None
    federated: Tally = Tally()


class TooFewReadable(msgspec.Struct, frozen=True, tag=True):
    """No mean was computed: these devices' reports could not be decoded, and fewer than the minimum remain."""

    round: int
    unreadable: tuple[DeviceId, ...]


class EvaluationDone(msgspec.Struct, frozen=True, tag=True):
    """A version was measured."""

    version: int
    metrics: VersionMetrics


class FiguresDone(msgspec.Struct, frozen=True, tag=True):
    """The on-device metrics of a round; reports that have none are left out."""

    round: int
    federated: Tally


class JobFailed(msgspec.Struct, frozen=True, tag=True):
    """The job failed. ``round`` or ``version`` names what it was for; the other is None."""

    reason: str
    round: int | None = None
    version: int | None = None


Result = AggregationDone | TooFewReadable | EvaluationDone | FiguresDone | JobFailed


def failed(job: Job, reason: str) -> JobFailed:
    """The result of a job that failed for this reason."""
    match job:
        case AggregationJob() | FiguresJob():
            return JobFailed(reason, round=job.round)
        case EvaluationJob():
            return JobFailed(reason, version=job.version)
