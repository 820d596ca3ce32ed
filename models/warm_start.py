"""Initial weights of a fleet: random, then trained centrally on public text. Imports TensorFlow only when called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nightjar.models.batches import pack
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.initial import initial_weights
from nightjar.wire.parameters import Vector

PASSES = 3.0
"""Passes over the public text: most of what central training gains."""
RATE, CLIP_NORM = 3.0, 1.0
"""With gradients clipped at 1, the learning rate at which ``tiny`` learned most in one pass over chat text."""


def falling_rate(rate: float, done: float) -> float:
    """The learning rate of central training after a share of the steps, 0 to 1.

    It is constant in the first half, then it falls linearly to a tenth.

    >>> [round(falling_rate(3.0, done), 2) for done in (0.0, 0.5, 0.75, 1.0)]
    [3.0, 3.0, 1.5, 0.3]
    """
    return rate * min(1.0, max(0.1, 2.0 * (1.0 - done)))


def warm_start(
    shape: ModelConfiguration,
    vocabulary_size: int,
    messages: Sequence[Sequence[int]],
    passes: float,
    seed: int,
    progress: Callable[[int, int], None] = lambda _done, _steps: None,
) -> Vector:
    """Train random weights centrally on messages (word ids without BOS and EOS); returns (n,) float32.

    No passes leave the weights random; any positive number makes at least one step.

    Raises:
        LocalProtocolError: there are no messages.
    """
    weights = initial_weights(shape, vocabulary_size, seed)
    if not passes:
        return weights
    from nightjar.models.training import train_centrally  # imports TensorFlow

    batches = pack(messages, shape.batch_rows, shape.sequence_length, np.random.default_rng(seed))
    steps = max(1, int(passes * len(batches)))
    return train_centrally(
        weights,
        shape,
        vocabulary_size,
        batches,
        steps=steps,
        learning_rate=RATE,
        clip_norm=CLIP_NORM,
        progress=progress,
    )
