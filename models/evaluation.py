"""How good some weights are on some messages, with TensorFlow: on a GPU if it sees one.

A pure function of picklable arguments, so a coordinator may call it in a child process and keep TensorFlow's half
gigabyte out of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from models import lstm
from models.batches import Batches
from models.configurations import ModelConfiguration
from wire.parameters import Vector

# Evaluation shall say the same everywhere; the ten bits of TensorFloat-32 are too few for that.
tf.config.experimental.enable_tensor_float_32_execution(False)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Recall as Hard et al. 2018, section 4: padding, end-of-message and unknown targets are not counted.

    Attributes:
        top1: share of the counted targets that were the best suggestion, 0 to 1.
        top3: share that was among the best three, 0 to 1.
        loss: mean cross-entropy per target (also the uncounted ones), nats.
        counted: number of counted targets.
    """

    top1: float
    top3: float
    loss: float
    counted: int


def evaluate(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int, batches: Batches) -> Metrics:
    """Score weights on packed messages.

    Args:
        weights: (n,) float32.
        configuration: shape of the model.
        vocabulary_size: V.
        batches: what to foresee; with none, every figure is 0.

    Raises:
        LocalProtocolError: the weights do not have the length of the layout.
    """
    tensors = configuration.layout(vocabulary_size).unflatten(weights)
    model = lstm.Weights(**{name: tf.constant(value) for name, value in tensors.items()})
    sums = [0.0] * len(lstm.Scores._fields)
    for x, y in batches:
        found = _score(model, tf.constant(x), tf.constant(y))
        sums = [total + float(value) for total, value in zip(sums, found, strict=True)]
    total = lstm.Scores(*sums)
    return Metrics(
        top1=total.top1 / max(total.counted, 1.0),
        top3=total.top3 / max(total.counted, 1.0),
        loss=total.loss_sum / max(total.targets, 1.0),
        counted=int(total.counted),
    )


_score = tf.function(lstm.score)  # traced once for each shape
