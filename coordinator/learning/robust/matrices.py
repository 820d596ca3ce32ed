"""The updates of a cohort as one matrix, and what several rules compute of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from coordinator.learning.strategies import Wide

Updates = npt.NDArray[np.float32]
"""(k, n) float32: one clipped update a row, devices in ascending order."""
Weights = npt.NDArray[np.float64]
"""(k,) float64."""
Flags = npt.NDArray[np.bool_]
"""(k,) bool: which devices a rule keeps."""

BLOCK = 1 << 16
"""Columns that a coordinate-wise rule sorts at a time: sorting needs copies of them."""


def blocks(updates: Updates) -> Iterator[Wide]:
    """The columns in blocks, (k, b) float64."""
    for start in range(0, updates.shape[1], BLOCK):
        yield updates[:, start : start + BLOCK].astype(np.float64)


def weighted(updates: Updates, weights: Weights) -> Wide:
    """``sum(w_k u_k) / sum(w_k)``, in order of devices; zero if no weight is positive.

    >>> weighted(np.array([[1, 0], [5, 2]], np.float32), np.array([1.0, 3.0])).tolist()
    [4.0, 1.5]
    """
    total = np.zeros(updates.shape[1])
    for update, weight in zip(updates, weights.tolist(), strict=True):
        total += weight * update
    return total / (weights.sum() or 1.0)


def square_distances(updates: Updates) -> Wide:
    """Squared Euclidean distance of each pair of updates, (k, k) float64.

    >>> square_distances(np.array([[0, 0], [3, 4]], np.float32)).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    found = np.zeros((len(updates), len(updates)))
    for row, update in enumerate(updates):
        for other in range(row):
            apart = update.astype(np.float64) - updates[other]
            found[row, other] = found[other, row] = np.square(apart).sum()
    return found


def norms(updates: Updates, centre: Wide | float = 0.0) -> Weights:
    """Distance of each update from a centre, (k,) float64.

    >>> norms(np.array([[3, 4], [0, 1]], np.float32)).tolist()
    [5.0, 1.0]
    """
    return np.array([np.sqrt(np.square(update.astype(np.float64) - centre).sum()) for update in updates])
