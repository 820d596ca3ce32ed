"""Central training on public text: the warm start of a federated model.

It calls the ``train`` signature that devices call, so there is no second implementation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from nightjar.models.batches import Batches
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.learning_rate import falling_rate
from nightjar.models.program import KeyboardProgram
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import Vector


def train_centrally(
    weights: Vector,
    configuration: ModelConfiguration,
    vocabulary_size: int,
    batches: Batches,
    *,
    steps: int,
    learning_rate: float,
    clip_norm: float,
    progress: Callable[[int, int], None] = lambda _done, _steps: None,
) -> Vector:
    """Plain SGD over the batches, cycled in the same order; without a step, the weights (n,) float32 are unchanged.

    The learning rate falls (:func:`nightjar.models.learning_rate.falling_rate`). ``progress`` is called after each step
    with the number of steps done and of all steps.

    Raises:
        LocalProtocolError: there are steps but no batches.
    """
    if steps and not len(batches):
        msg = "central training needs at least one batch, got none"
        raise LocalProtocolError(msg)
    program = KeyboardProgram(configuration, vocabulary_size)
    program.restore(tf.constant(weights))
    train = program.traced("train")
    for step, (x, y) in enumerate(itertools.islice(itertools.cycle(batches), steps)):
        rate = tf.constant([falling_rate(learning_rate, step / steps)])
        train(x=tf.constant(x), y=tf.constant(y), learning_rate=rate, clip_norm=tf.constant([clip_norm]))
        progress(step + 1, steps)
    return np.array(program.save()["weights"])
