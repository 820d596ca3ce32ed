"""FoolsGold: weighs down devices whose updates point the same way, as those of one attacker with many names do. Pure.

With c_ij the cosine of the updates of i and j, and ``v_i = max_j c_ij``::

    c_ij := c_ij v_i / v_j           if v_j > v_i: pardons the honest neighbour of two attackers
    a_i   = 1 - max_j c_ij           in [0, 1]
    a_i  := a_i / max_j a_j
    a_i  := ln(a_i / (1 - a_i)) + 1/2, in [0, 1]

The paper compares the sums of all updates that a device ever sent. Reports are deleted after their round here, so this
compares those of one round. It does nothing against a single attacker, and attackers who train apart, or add noise of
their own, look different.

Source: Fung et al. 2020, "The Limitations of Federated Learning in Sybil Settings", algorithm 1, with kappa = 1.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.robust.matrices import Updates, Weights, norms, square_distances


def foolsgold_weights(updates: Updates) -> Weights:
    """The weight of each device, (k,) float64 in [0, 1]; all 1 if all updates are alike.

    >>> foolsgold_weights(np.array([[1, 0], [0, 1], [0, 1]], np.float32)).tolist()
    [1.0, 0.0, 0.0]

    Args:
        updates: (k, n) float32.
    """
    if len(updates) < 2:
        return np.ones(len(updates))
    lengths = norms(updates)
    squares = np.square(lengths)
    products = (squares[:, None] + squares[None, :] - square_distances(updates)) / 2
    lengths[lengths == 0] = 1.0
    cosines = products / np.outer(lengths, lengths)
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.max(axis=1)
    pardon = np.ones_like(cosines)
    for i, own in enumerate(nearest.tolist()):
        above = nearest > own
        pardon[i, above] = max(0.0, own) / nearest[above]
    weights = np.clip(1 - (cosines * pardon).max(axis=1), 0.0, 1.0)
    if weights.max() <= 1e-9:
        return np.ones(len(updates))
    share = np.clip(weights / weights.max(), 1e-12, 1 - 1e-12)
    logits: Weights = np.log(share / (1 - share))
    return np.clip(logits + 0.5, 0.0, 1.0)
