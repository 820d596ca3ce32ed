"""Norm bounding with noise: the clipped mean, and Gaussian noise that drowns a small planted change. Pure.

With C the largest norm after clipping and n parameters::

    mean + N(0, (0.1 C)^2 / n) in each coordinate, so that the noise has about the norm 0.1 C

This is no differential privacy: the noise is too small for that, and its seed is the coordinator's. Every coordinate
changes in each round, so the next weights are published whole.

Source: Sun et al. 2019, "Can You Really Backdoor Federated Learning?", section 4.
"""

from __future__ import annotations

import math

import numpy as np

from coordinator.learning.strategies import Wide

NOISE_SHARE = 0.1


def with_noise(mean: Wide, clip_norm: float, generator: np.random.Generator) -> Wide:
    """The mean with noise, (n,) float64.

    >>> with_noise(np.zeros(3), 0.0, np.random.default_rng(0)).tolist()
    [0.0, 0.0, 0.0]

    Args:
        mean: (n,) float64.
        clip_norm: C.
        generator: of the noise.
    """
    deviation = NOISE_SHARE * clip_norm / math.sqrt(mean.size)
    return mean + generator.normal(0.0, deviation, mean.size)
