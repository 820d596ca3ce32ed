"""Evaluates weights on messages with TensorFlow, on a GPU if there is one.

The functions are pure and their arguments picklable, so the coordinator can call them in a child process and need not
load TensorFlow itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from nightjar.models import lstm
from nightjar.models.batches import Batches
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.vocabulary import BOS
from nightjar.wire.parameters import Vector

# The ten mantissa bits of TensorFloat-32 are too few for equal results on all machines.
tf.config.experimental.enable_tensor_float_32_execution(False)

MOST_HITS = 1 << 14
"""Maximum number of targets for which hit or miss is kept, spread evenly over the text. It costs 4 KiB a version; the
standard error is a quarter of a percentage point where two versions differ in a tenth of the words."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Recall as in Hard et al. 2018, section 4: padding, end-of-message and unknown targets are not counted.

    Hits are two bit fields over at most :data:`MOST_HITS` counted targets in text order, each padded to whole bytes:
    whether the target was the best suggestion, then whether it was among the best three.
    """

    top1: float  # share of the counted targets that were the best suggestion, 0 to 1
    top3: float  # share of the counted targets among the best three suggestions, 0 to 1
    loss: float  # mean cross-entropy per target, uncounted ones included, nats
    counted: int  # number of counted targets
    hits: bytes = b""


def evaluate(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int, batches: Batches) -> Metrics:
    """Evaluate weights (n,) float32 on packed messages; without any, every metric is 0.

    Raises:
        LocalProtocolError: the weights do not have the length of the layout.
    """
    model = _model(weights, configuration, vocabulary_size)
    loss_sum = targets = 0.0
    parts = [np.zeros(0, np.float32)]
    for x, y in batches:
        found = _ranks(model, tf.constant(x), tf.constant(y))
        loss_sum += float(found.loss_sum)
        targets += float(found.targets)
        parts.append(found.rank.numpy()[found.counted.numpy() > 0])
    return metrics_of(np.concatenate(parts), loss_sum / max(targets, 1.0))


def metrics_of(rank: npt.NDArray[np.float32], loss: float) -> Metrics:
    """The metrics of the ranks of all counted targets."""
    kept = rank[:: -(-rank.size // MOST_HITS) or 1]
    return Metrics(
        top1=int(np.count_nonzero(rank < 1)) / max(rank.size, 1),
        top3=int(np.count_nonzero(rank < 3)) / max(rank.size, 1),
        loss=loss,
        counted=rank.size,
        hits=np.packbits(kept < 1).tobytes() + np.packbits(kept < 3).tobytes(),
    )


def best_words(
    weights: Vector, configuration: ModelConfiguration, vocabulary_size: int, contexts: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The ids of the three best next words after each beginning of a message, best first."""
    model = _model(weights, configuration, vocabulary_size)
    best = []
    for context in contexts:
        h, c = tf.zeros((1, configuration.embedding)), tf.zeros((1, configuration.hidden))
        for word in (BOS, *context):
            logits, h, c = lstm.advance(model, tf.constant([word]), h, c)
        best.append(tf.math.top_k(logits[0], k=3).indices.numpy().tolist())
    return best


def _model(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int) -> lstm.LstmTensors:
    tensors = configuration.layout(vocabulary_size).unflatten(weights)
    return lstm.LstmTensors(**{name: tf.constant(value) for name, value in tensors.items()})


_ranks = tf.function(lstm.ranks)  # traced once for each shape
