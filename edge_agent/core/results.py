"""The results of a training step, of evaluating a batch, and of a training that was abandoned."""

from __future__ import annotations

from dataclasses import dataclass

from nightjar.wire.messages import DropoutCause


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


@dataclass(frozen=True, slots=True)
class TrainingStopped:
    """A training that was abandoned.

    Attributes:
        cause: dropout cause reported to the coordinator.
        detail: text for people; it never contains typed text, tokens or parameters.
        advice: text for the device's owner, which is not sent.
    """

    cause: DropoutCause
    detail: str
    advice: str = ""
