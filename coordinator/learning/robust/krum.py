"""Multi-Krum: leaves out the f devices that are far from their neighbours. Pure.

With k devices, f of them malicious, and N_i the k - f - 2 updates nearest to u_i::

    score of i    sum over j in N_i of |u_i - u_j|^2
    kept          the k - f devices of the lowest scores
    mean          the weighted mean of those kept

It needs ``k >= 2 f + 3``. It leaves out f devices in every round, so honest ones when fewer attack, and those first who
type unlike others. Where each device sends its own few coordinates, all are about equally far apart and the score says
little more than the size of an update.

Source: Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", sections 4, 6.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.robust.matrices import Flags, Updates, Weights, square_distances
from coordinator.learning.strategies import Wide


def multi_krum(updates: Updates, malicious: int) -> Flags:
    """The devices that are kept, (k,) bool.

    >>> multi_krum(np.array([[0], [1], [2], [3], [50]], np.float32), 1).tolist()
    [True, True, True, True, False]

    Args:
        updates: (k, n) float32.
        malicious: f.
    """
    order = np.argsort(krum_scores(square_distances(updates), malicious), kind="stable")
    kept = np.zeros(len(updates), np.bool_)
    kept[order[: len(updates) - malicious]] = True
    return kept


def krum_scores(distances: Wide, malicious: int) -> Weights:
    """The score of each device, (k,) float64.

    >>> apart = square_distances(np.array([[0], [1], [2], [3], [50]], np.float32))
    >>> krum_scores(apart, 1).tolist()
    [5.0, 2.0, 2.0, 5.0, 4513.0]

    Args:
        distances: (k, k) float64, squared.
        malicious: f; at least one neighbour is counted, however large it is.
    """
    nearest = max(1, len(distances) - malicious - 2)
    scores: Weights = np.sort(distances, axis=1)[:, 1 : nearest + 1].sum(axis=1)  # without the update itself
    return scores
