"""Random initial weights, bit-identical on every machine for the same seed.

Only uniform draws are used. Normal draws call libm, whose last bit differs between platforms.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

from nightjar.models.configurations import ModelConfiguration
from nightjar.wire.parameters import ParameterSpec, Vector

EMBEDDING_STD = 0.125
"""Small enough that the initial logits are near zero, so the initial loss is near ln V."""
FORGET_BIAS = 1.0
"""The cell initially remembers (Gers et al. 2000; Jozefowicz et al. 2015)."""


def initial_weights(configuration: ModelConfiguration, vocabulary_size: int, seed: int) -> Vector:
    """Random weights (n,) float32: Glorot uniform kernels, uniform embedding, forget bias 1.

    Each tensor gets a child seed by its name.
    """
    layout = configuration.layout(vocabulary_size)
    return layout.flatten({spec.name: _tensor(spec, configuration.hidden, seed) for spec in layout.tensors})


def _tensor(spec: ParameterSpec, hidden: int, seed: int) -> npt.NDArray[np.float32]:
    if spec.name == "gate_bias":
        bias = np.zeros(spec.shape, np.float32)
        bias[:hidden] = FORGET_BIAS  # the forget gate is the first
        return bias
    if spec.name == "embedding":
        bound = EMBEDDING_STD * math.sqrt(3.0)
    else:
        # Glorot and Bengio 2010, equation 16, per gate: a kernel has H columns for each.
        fan_in, fan_out = spec.shape[0], hidden if spec.name.endswith("kernel") else spec.shape[1]
        bound = math.sqrt(6.0 / (fan_in + fan_out))
    generator = np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(spec.name.encode())]))
    return generator.uniform(-bound, bound, spec.shape).astype(np.float32)
