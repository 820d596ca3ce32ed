"""How finely a value is sent: uniform levels with stochastic rounding.

The expectation of a dequantized value is the value itself, so errors of different devices cancel in the mean.
Source: Alistarh et al. 2017 (QSGD), section 3.1, with the largest magnitude as scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wire.parameters import Vector


@dataclass(frozen=True, slots=True)
class Quantized:
    """Values as small integers.

    Attributes:
        levels: (k,) int8 in [-127, 127].
        scale: largest magnitude, >= 0; a level of 127 stands for it.
    """

    levels: npt.NDArray[np.int8]
    scale: np.float32


def quantize_8bit(values: Vector, rng: np.random.Generator) -> Quantized:
    """Round each value to one of its two neighbouring levels, with the probabilities that make the mean exact.

    Args:
        values: (k,) float32, finite.
        rng: source of the rounding.

    Returns:
        Levels and scale, with ``E[dequantize(quantize(v))] = v``.
    """
    scale = np.float32(np.abs(values).max()) if values.size else np.float32(0)
    if scale == 0:
        return Quantized(np.zeros(values.size, np.int8), np.float32(0))
    # float64, so that the division cannot leave [-127, 127] or meet a subnormal scale.
    exact = values.astype(np.float64) * (127.0 / float(scale))
    levels = np.floor(exact + rng.random(values.size))
    return Quantized(np.clip(levels, -127, 127).astype(np.int8), scale)


def dequantize_8bit(quantized: Quantized) -> Vector:
    """The values that the levels stand for: (k,) float32."""
    return (quantized.levels.astype(np.float64) * (float(quantized.scale) / 127.0)).astype(np.float32)
