"""Uniform integers from the operating system's generator, for noise that nobody may find out."""

from __future__ import annotations

import os

import numpy as np

from nightjar.wire.secure_sum.discrete_gaussian import Integers


class SystemIntegers:
    """Implements :class:`nightjar.wire.secure_sum.discrete_gaussian.UniformIntegers`."""

    def integers(self, low: int, high: int, size: int, /) -> Integers:
        """Integers from ``low`` to below ``high``, at most 2**62 apart: (size,) int64.

        >>> drawn = SystemIntegers().integers(-2, 1, 1000)
        >>> sorted(set(drawn.tolist()))
        [-2, -1, 0]
        """
        span = high - low
        limit = (1 << 63) // span * span  # beyond it, some remainders would be commoner than others
        drawn = _draw(size)
        while (beyond := drawn >= limit).any():
            drawn[beyond] = _draw(int(beyond.sum()))
        return (drawn % np.uint64(span)).astype(np.int64) + low


def _draw(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(1)
