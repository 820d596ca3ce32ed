"""How good some weights are on some messages, with TensorFlow: on a GPU if it sees one.

A pure function of picklable arguments, so a coordinator may call it in a child process and keep TensorFlow's half
gigabyte out of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from models import lstm
from models.batches import Batches
from models.configurations import ModelConfiguration
from models.vocabulary import BOS
from wire.parameters import Vector

# Evaluation shall say the same everywhere; the ten bits of TensorFloat-32 are too few for that.
tf.config.experimental.enable_tensor_float_32_execution(False)

MOST_HITS = 1 << 14
"""Words of a text of which is kept whether they were foreseen, spread evenly: 4 KiB a version, and an error of a
quarter of a point where two versions differ in a tenth of the words."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Recall as Hard et al. 2018, section 4: padding, end-of-message and unknown targets are not counted.

    Attributes:
        top1: share of the counted targets that were the best suggestion, 0 to 1.
        top3: share that was among the best three, 0 to 1.
        loss: mean cross-entropy per target (also the uncounted ones), nats.
        counted: number of counted targets.
        hits: of at most :data:`MOST_HITS` of these, in the order of the text, one bit each: first whether the word was
            the best suggestion, then, from the next whole byte on, whether it was among the best three.
    """

    top1: float
    top3: float
    loss: float
    counted: int
    hits: bytes = b""


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
    model = _model(weights, configuration, vocabulary_size)
    loss_sum = targets = 0.0
    parts = [np.zeros(0, np.float32)]
    for x, y in batches:
        found = _ranks(model, tf.constant(x), tf.constant(y))
        loss_sum += float(found.loss_sum)
        targets += float(found.targets)
        parts.append(found.rank.numpy()[found.counted.numpy() > 0])
    rank = np.concatenate(parts)
    kept = rank[:: -(-rank.size // MOST_HITS) or 1]
    return Metrics(
        top1=int(np.count_nonzero(rank < 1)) / max(rank.size, 1),
        top3=int(np.count_nonzero(rank < 3)) / max(rank.size, 1),
        loss=loss_sum / max(targets, 1.0),
        counted=rank.size,
        hits=np.packbits(kept < 1).tobytes() + np.packbits(kept < 3).tobytes(),
    )


def best_words(
    weights: Vector, configuration: ModelConfiguration, vocabulary_size: int, contexts: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The ids of the three best words after the beginnings of messages, best first.

    Args:
        weights: (n,) float32.
        configuration: shape of the model.
        vocabulary_size: V.
        contexts: word ids of each beginning.
    """
    model = _model(weights, configuration, vocabulary_size)
    best = []
    for context in contexts:
        h, c = tf.zeros((1, configuration.embedding)), tf.zeros((1, configuration.hidden))
        for word in (BOS, *context):
            logits, h, c = lstm.advance(model, tf.constant([word]), h, c)
        best.append(tf.math.top_k(logits[0], k=3).indices.numpy().tolist())
    return best


def _model(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int) -> lstm.Weights:
    tensors = configuration.layout(vocabulary_size).unflatten(weights)
    return lstm.Weights(**{name: tf.constant(value) for name, value in tensors.items()})


_ranks = tf.function(lstm.ranks)  # traced once for each shape
