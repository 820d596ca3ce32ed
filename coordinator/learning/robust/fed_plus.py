"""Fed+'s robust mean: a geometric median that is smooth near the middle. Pure.

With weights w_i and the radius rho, the centre b at which the residuals, clipped to rho, add up to zero::

    sum over i of w_i min(1, rho / |u_i - b|) (u_i - b) = 0

For rho towards 0 it is the geometric median, for a large one the mean. The paper's aggregator reaches it by steps of at
most rho; this page takes the same point as a weighted mean with weights ``w_i min(1, rho / |u_i - b|)``, computed anew
until it rests (Weiszfeld's algorithm), which takes fewer. rho is a tenth of the lower median of the norms.

Nobody moves the centre by more than a direction of bounded weight; but in many dimensions honest updates are about
equally far from everything, and it is then close to the mean.

Source: Kundu et al. 2022, "Robustness and Personalization in Federated Learning: A Unified Approach via
Regularization", section 3 (Fed+).
"""

from __future__ import annotations

import statistics

import numpy as np

from coordinator.learning.robust.matrices import Updates, Weights, norms, weighted
from coordinator.learning.strategies import Wide

RADIUS_SHARE = 0.1
STEPS = 50
REST = 1e-4
"""A step shorter than this share of the radius ends the search."""


def robust_mean(updates: Updates, weights: Weights) -> Wide:
    """The centre, (n,) float64.

    >>> updates = np.array([[1.0], [1.2], [1.4], [900.0]], np.float32)
    >>> bool(1.0 < robust_mean(updates, np.ones(4))[0] < 1.4)
    True

    Args:
        updates: (k, n) float32.
        weights: (k,) float64, positive.
    """
    radius = RADIUS_SHARE * statistics.median_low(norms(updates).tolist())
    centre = weighted(updates, weights)
    for _ in range(STEPS):
        apart = norms(updates, centre)
        share = np.minimum(1.0, radius / np.maximum(apart, 1e-30))
        if not share.any():
            return np.zeros(updates.shape[1])  # more than half of the devices learned nothing
        following = weighted(updates, weights * share)
        moved = float(np.sqrt(np.square(following - centre).sum()))
        centre = following
        if moved <= REST * radius:
            break
    return centre
