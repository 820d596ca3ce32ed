"""Sparsification of an update: keeps the top k entries by magnitude, and drops the rest.

Source: Aji and Heafield 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import Vector


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse vector."""

    size: int  # n, the length of the whole vector
    indices: npt.NDArray[np.int64]  # (k,) int64, strictly ascending, in [0, n)
    values: Vector  # (k,) float32

    def dense(self) -> Vector:
        """The dense vector, with zeros elsewhere: (n,) float32."""
        vector = np.zeros(self.size, np.float32)
        vector[self.indices] = self.values
        return vector


def count_for(density: float, size: int) -> int:
    """k, the number of coordinates for a density: at least one unless the vector is empty.

    >>> count_for(0.01, 1_412_250), count_for(0.01, 5), count_for(1.0, 5)
    (14123, 1, 5)
    """
    return min(size, max(1, -int(-density * size // 1))) if size else 0


def top_k(vector: Vector, k: int) -> Sparse:
    """The k entries of largest magnitude of a finite vector (n,) float32; ties go to the lowest index.

    >>> top_k(np.array([1, -3, 3, 0], np.float32), 2).indices.tolist()
    [1, 2]
    """
    if k == 0:
        return Sparse(vector.size, np.zeros(0, np.int64), np.zeros(0, np.float32))
    # Without the sign, the bits of floats sort like the floats, and integers compare the same on every machine. Vector
    # instructions of a 32-bit ARM treat the smallest floats as zero.
    magnitude = np.ascontiguousarray(vector, np.float32).view(np.uint32) & np.uint32(0x7FFFFFFF)
    threshold = np.partition(magnitude, vector.size - k)[vector.size - k]
    above = np.flatnonzero(magnitude > threshold)
    ties = np.flatnonzero(magnitude == threshold)[: k - above.size]
    indices = np.sort(np.concatenate([above, ties])).astype(np.int64)
    return Sparse(vector.size, indices, vector[indices])
