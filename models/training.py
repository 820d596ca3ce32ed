"""Training in one place, on text that is public: the warm start of a federated model.

It runs the very signature that devices run, so there is no second implementation to keep alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from models.batches import Batches
from models.configurations import ModelConfiguration
from models.program import Program
from models.warm_start import falling_rate
from wire.errors import LocalProtocolError
from wire.parameters import Vector


def train_centrally(
    weights: Vector,
    configuration: ModelConfiguration,
    vocabulary_size: int,
    batches: Batches,
    *,
    steps: int,
    learning_rate: float,
    clip_norm: float,
    progress: Callable[[int], None] = lambda _done: None,
) -> Vector:
    """Plain SGD over the batches, again and again in the same order, for a number of steps.

    Args:
        weights: (n,) float32 to begin with.
        configuration: shape of the model; its B and T are those of the batches.
        vocabulary_size: V.
        batches: public text.
        steps: how many batches to train on; 0 returns the weights as they are.
        learning_rate: of the first half; the second half falls linearly to a tenth of it.
        clip_norm: the most that the norm of a batch's mean gradient may be.
        progress: is told after each step how many are done.

    Returns:
        (n,) float32.

    Raises:
        LocalProtocolError: there are steps to make and no batches.
    """
    if steps and not len(batches):
        msg = "central training needs at least one batch, got none"
        raise LocalProtocolError(msg)
    program = Program(configuration, vocabulary_size)
    program.restore(tf.constant(weights))
    train = program.traced("train")
    for step, (x, y) in enumerate(itertools.islice(itertools.cycle(batches), steps)):
        rate = falling_rate(learning_rate, step / steps)
        train(x=tf.constant(x), y=tf.constant(y), learning_rate=tf.constant(rate), clip_norm=tf.constant(clip_norm))
        progress(step + 1)
    return np.array(program.save()["weights"])
