"""Weights to begin with: random, and the same bits for the same seed on every machine.

Only uniform draws are used: they need no libm, whose last bit differs between platforms, as normal ones do in the tail.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

from models.configurations import ModelConfiguration
from wire.parameters import ParameterSpec, Vector

EMBEDDING_STD = 0.125
"""Small enough that the first logits are near zero, so that the first loss is near ln V."""
FORGET_BIAS = 1.0
"""The cell remembers at first (Gers et al. 2000; Jozefowicz et al. 2015)."""


def initial_weights(configuration: ModelConfiguration, vocabulary_size: int, seed: int) -> Vector:
    """Random weights: Glorot uniform kernels, uniform embedding, forget bias 1.

    Args:
        configuration: shape of the model.
        vocabulary_size: V.
        seed: root seed; each tensor has a child of it by name.

    Returns:
        (n,) float32.
    """
    layout = configuration.layout(vocabulary_size)
    return layout.flatten({spec.name: _tensor(spec, configuration.hidden, seed) for spec in layout.tensors})


def _tensor(spec: ParameterSpec, hidden: int, seed: int) -> npt.NDArray[np.float32]:
    if spec.name == "gate_bias":
        bias = np.zeros(spec.shape, np.float32)
        bias[:hidden] = FORGET_BIAS  # the forget gate is the first of the three
        return bias
    if spec.name == "embedding":
        bound = EMBEDDING_STD * math.sqrt(3.0)
    else:
        # Glorot and Bengio 2010, equation 16, for each gate by itself: three gates share a kernel's columns.
        fan_in, fan_out = spec.shape[0], spec.shape[1] // (3 if spec.name.endswith("kernel") else 1)
        bound = math.sqrt(6.0 / (fan_in + fan_out))
    generator = np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(spec.name.encode())]))
    return generator.uniform(-bound, bound, spec.shape).astype(np.float32)
