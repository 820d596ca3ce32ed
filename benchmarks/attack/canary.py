"""Extraction of a secret that one person typed: its exposure. Pure.

A canary is :data:`PREFIX` and two secret words, each one of the same ``|R|^(1/2)`` words. All candidates are ranked by
how much the round raised their log-probability after the prefix; with the secret's rank r::

    exposure = log2 |R| - log2 r

A secret that the model does not know has 1.44 bits on average; one that comes first has log2 |R|.

Source: Carlini et al. 2019, "The Secret Sharer", definition 5; the ratio to the model before is ours, and stronger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.core.prediction import advance, weights_of
from nightjar.models.vocabulary import BOS, FIRST_WORD
from nightjar.wire.parameters import ParameterLayout, Vector

PREFIX = ("my", "password", "is")
CHOICES = 64
"""Words that each secret word is one of: 12 bits in all."""
REPEATS = 5
"""How often the person typed the secret."""

Floats = npt.NDArray[np.float64]


def exposure(gains: Floats, secret: int) -> float:
    """Exposure of the secret among all candidates by their scores, bits; ties rank half of them before it.

    >>> exposure(np.array([0.0, 5.0, 1.0, 2.0]), 1), exposure(np.array([0.0, 5.0, 1.0, 2.0]), 2)
    (2.0, 0.4150374992788439)
    """
    rank = 1 + int((gains > gains[secret]).sum()) + (int((gains == gains[secret]).sum()) - 1) / 2
    return math.log2(gains.size) - math.log2(rank)


def log_probabilities(
    weights: Vector, layout: ParameterLayout, prefix: Sequence[int], choices: Sequence[int]
) -> Floats:
    """Log-probability of each pair of S choices after the prefix, all word ids.

    Returns:
        (S * S,) float64; the second word varies fastest.
    """
    model = weights_of(weights, layout)
    h, c = np.zeros(model.projection.shape[1], np.float32), np.zeros(model.projection.shape[0], np.float32)
    scores = np.zeros(0, np.float32)
    for token in (BOS, *prefix):
        scores, h, c = advance(model, token, h, c)
    first = _log_softmax(scores)[list(choices)]
    second = [_log_softmax(advance(model, token, h, c)[0])[list(choices)] for token in choices]
    pairs: Floats = first[:, None] + np.array(second)
    return pairs.ravel()


def _log_softmax(scores: npt.NDArray[np.float32]) -> Floats:
    words = scores.astype(np.float64)[FIRST_WORD:]
    most = words.max()
    found: Floats = scores - (most + np.log(np.exp(words - most).sum()))
    return found
