"""Work that is too heavy for the driver's thread, as values that cross a process border as lines of JSON."""

from __future__ import annotations

import msgspec

from coordinator.learning.device_metrics import Tally
from coordinator.learning.optimizers import OptimizerChoice
from models.manifest import Artifact, Transfer
from wire.identifiers import DeviceId
from wire.messages import CodecChoice


class VersionMetrics(msgspec.Struct, frozen=True):
    """How good a version is on the held-out text.

    Attributes:
        top1: recall of the best suggestion, 0 to 1.
        top3: recall of the best three, 0 to 1.
        loss: mean cross-entropy per target, nats.
        hits: which words were foreseen (:class:`models.evaluation.Metrics`); two versions are compared word by word.
    """

    top1: float
    top3: float
    loss: float
    hits: bytes = b""


class EvaluationText(msgspec.Struct, frozen=True):
    """What to measure a version on: the path of a corpus file (user, text)."""

    text: str


class ReportFile(msgspec.Struct, frozen=True):
    """A stored report that goes into the mean."""

    device: DeviceId
    attempt: int
    num_examples: int


class AggregationJob(msgspec.Struct, frozen=True, tag=True):
    """Average the reports of a round, and measure the result.

    Attributes:
        round: number of the round.
        manifest: hash of the manifest of the base version.
        reports: what to average.
        minimum: fewest reports that make a mean.
        codec: how the payloads are encoded.
        optimizer: of the server.
        optimizer_state: hash of the optimizer's state; None at first.
        clip_norm: that updates are clipped to; None takes the median norm of these.
        downlink: how the next weights are published.
        bases: hashes of the manifests of earlier versions, newest first: devices may hold their weights.
        seed: of the next mask and of rounding.
        evaluation: None to leave the measuring out.
    """

    round: int
    manifest: str
    reports: tuple[ReportFile, ...]
    minimum: int
    codec: CodecChoice
    optimizer: OptimizerChoice
    optimizer_state: str | None
    evaluation: EvaluationText | None
    clip_norm: float | None = None
    downlink: str = "f32"
    bases: tuple[str, ...] = ()
    seed: int = 0


class EvaluationJob(msgspec.Struct, frozen=True, tag=True):
    """Measure a version."""

    version: int
    manifest: str
    evaluation: EvaluationText


class FiguresJob(msgspec.Struct, frozen=True, tag=True):
    """Add up what the devices of a round found of its base version; no update is looked at.

    Attributes:
        round: number of the round.
        reports: what to read.
    """

    round: int
    reports: tuple[ReportFile, ...]


Job = AggregationJob | EvaluationJob | FiguresJob


class AggregationDone(msgspec.Struct, frozen=True, tag=True):
    """The mean was applied.

    Attributes:
        round: number of the round.
        weights: hash of the next weights, stored with the artifacts.
        size_bytes: their length.
        optimizer_state: hash of the next state; None if the optimizer has none.
        clip_norm: that the next round's updates are clipped to; None if no update ever changed anything.
        update_norm: L2 norm of the change of the weights.
        metrics: None if nothing was measured.
        transfers: shorter ways to the weights.
        mask: coordinates for the next updates, if the codec needs them.
        unreadable: devices whose reports could not be decoded and are not in the mean.
        federated: what the devices found of the base version.
        reports_sha256: sha256 over the hashes of the reports, each in hex, in ascending order of devices.
    """

    round: int
    weights: str
    size_bytes: int
    optimizer_state: str | None
    update_norm: float
    metrics: VersionMetrics | None
    clip_norm: float | None = None
    unreadable: tuple[DeviceId, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    mask: Artifact | None = None
    federated: Tally = Tally()
    reports_sha256: str = ""


class TooFewReadable(msgspec.Struct, frozen=True, tag=True):
    """No mean: the reports of these devices could not be decoded, and without them there are fewer than the minimum."""

    round: int
    unreadable: tuple[DeviceId, ...]


class EvaluationDone(msgspec.Struct, frozen=True, tag=True):
    """A version was measured."""

    version: int
    metrics: VersionMetrics


class FiguresDone(msgspec.Struct, frozen=True, tag=True):
    """The figures were added up; reports without any, or that cannot be read, are left out."""

    round: int
    federated: Tally


class JobFailed(msgspec.Struct, frozen=True, tag=True):
    """The job cannot be done; ``round`` or ``version`` is the job's, the other is None."""

    reason: str
    round: int | None = None
    version: int | None = None


Result = AggregationDone | TooFewReadable | EvaluationDone | FiguresDone | JobFailed


def failed(job: Job, reason: str) -> JobFailed:
    """The failure of a job."""
    match job:
        case AggregationJob() | FiguresJob():
            return JobFailed(reason, round=job.round)
        case EvaluationJob():
            return JobFailed(reason, version=job.version)
