"""The few operations on float64 vectors that an aggregation is made of, so that it can be done in more than one place.

:data:`NUMPY` does them here; :mod:`coordinator.shell.tensorflow_arithmetic` on a GPU. Whoever brings these operations
brings the same bits: each is one IEEE operation for each element, rounded by itself, and never two in one (a fused
multiply-add rounds once where we round twice). Numbers are widened from float32 and narrowed to it only here, by numpy:
some processors take the smallest float32 numbers for zero.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Wide = npt.NDArray[np.float64]
"""(n,) float64."""
Elements = Any
"""A vector where the arithmetic keeps it: has + - * / with its like and with Python's floats, and nothing else."""


class Sum(Protocol):
    """A vector that grows."""

    def add(self, indices: npt.NDArray[np.int64], values: Wide, weight: float) -> None:
        """Add ``weight * values`` at some places.

        Args:
            indices: (k,) int64, each at most once.
            values: (k,) float64.
            weight: of all of them.
        """

    def divided(self, by: float) -> Wide:
        """(n,) the sum over a number."""


class Arithmetic(Protocol):
    """Where vectors are kept and calculated with."""

    def sum(self, size: int) -> Sum:
        """Zeros (n,) to add to."""

    def take(self, values: Wide) -> Elements:
        """A vector to calculate with."""

    def give(self, elements: Elements) -> Wide:
        """What came out."""

    def sqrt(self, elements: Elements) -> Elements:
        """The root of each element."""

    def sign(self, elements: Elements) -> Elements:
        """-1, 0 or 1 for each element."""


class _NumpySum:
    def __init__(self, size: int) -> None:
        self._total = np.zeros(size, np.float64)

    def add(self, indices: npt.NDArray[np.int64], values: Wide, weight: float) -> None:
        # Indices are unique within an update, so this adds each once, ten times as fast as numpy.add.at.
        self._total[indices] += weight * values

    def divided(self, by: float) -> Wide:
        return self._total / by


class _Numpy:
    def sum(self, size: int) -> _NumpySum:
        return _NumpySum(size)

    def take(self, values: Wide) -> Wide:
        return values

    def give(self, elements: Wide) -> Wide:
        return elements

    def sqrt(self, elements: Wide) -> Wide:
        return np.sqrt(elements)

    def sign(self, elements: Wide) -> Wide:
        return np.sign(elements)


NUMPY: Arithmetic = _Numpy()
"""On the CPU."""
