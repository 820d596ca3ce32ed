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
