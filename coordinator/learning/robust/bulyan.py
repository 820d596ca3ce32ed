"""Bulyan: chooses devices by Krum, then trims each coordinate. Pure.

::

    1. t = k - 2 f times: take the device of the lowest Krum score among those left
    2. each coordinate: the mean of the t - 2 f values of those taken that are nearest to their median

The second step stops what Krum lets through: an update that is near the others but for a few large coordinates. It
needs ``k >= 4 f + 3``, and common coordinates, as its second step is a trimmed mean. Weights are not used.

Source: El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium", section 4.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.robust.krum import krum_scores
from coordinator.learning.robust.matrices import Flags, Updates, blocks, square_distances
from coordinator.learning.strategies import Wide


def bulyan(updates: Updates, malicious: int) -> tuple[Wide, Flags]:
    """The mean, (n,) float64, and the devices that the first step took, (k,) bool.

    >>> mean, taken = bulyan(np.array([[0], [1], [2], [3], [4], [5], [50]], np.float32), 1)
    >>> mean.tolist(), taken.tolist()
    ([2.0], [True, True, True, True, True, False, False])

    Args:
        updates: (k, n) float32.
        malicious: f.
    """
    distances, left = square_distances(updates), list(range(len(updates)))
    taken = np.zeros(len(updates), np.bool_)
    for _ in range(max(1, len(updates) - 2 * malicious)):
        taken[left.pop(int(krum_scores(distances[np.ix_(left, left)], malicious).argmin()))] = True
    count = max(1, int(taken.sum()) - 2 * malicious)
    parts = []
    for block in blocks(updates[taken]):
        order = np.argsort(np.abs(block - np.median(block, axis=0)), axis=0, kind="stable")[:count]
        parts.append(np.take_along_axis(block, order, axis=0).mean(axis=0))
    return np.concatenate(parts), taken
