"""What the pages on compressed updates share: choosing coordinates, and bytes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import Vector

VALUE_BYTES = 8
"""A kept value: float32 and its index as uint32. The product's codecs need less (docs/wire-format.md)."""
DENSE_BYTES = 4
BYTES_A_SECOND = 500.0
COMPUTE_S = 1.0

Kept = npt.NDArray[np.bool_]


def largest(values: Vector, count: int) -> Kept:
    """Where the ``count`` values of largest magnitude are, (n,) bool; of equal ones those with the smallest index.

    The count is 1 to n.

    >>> largest(np.array([1.0, -3.0, 2.0, 2.0], np.float32), 2).tolist()
    [False, True, True, False]
    """
    size = np.abs(values)
    least = np.partition(size, -count)[-count]
    kept: Kept = size > least
    kept[np.flatnonzero(size == least)[: count - np.count_nonzero(kept)]] = True
    return kept


def kept_of(size: int, density: float) -> int:
    """Coordinates at a density, at least 1."""
    return max(1, math.ceil(size * density))


def seconds(sent_bytes: float) -> float:
    """Of a round in which each client computes and sends, or is sent, so many bytes.

    >>> seconds(4000)
    9.0
    """
    return COMPUTE_S + sent_bytes / BYTES_A_SECOND
