"""Median and trimmed mean of each coordinate. Pure.

With the k values of a coordinate in ascending order ``x_1 <= ... <= x_k``::

    median         x_((k+1)/2), or the mean of the two in the middle
    trimmed mean   mean of x_(f+1) ... x_(k-f)

Fewer than half of the devices cannot move the median beyond the honest values, nor f devices the trimmed mean. Both
lose the updates of the few: a coordinate that most devices leave at zero stays at zero, whatever the others say. So
they cannot work where each device sends its own few coordinates (:mod:`coordinator.learning.robust.suitable`). Weights
are not used.

Source: Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", definitions 1, 2.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.robust.matrices import Updates, blocks
from coordinator.learning.strategies import Wide


def median(updates: Updates) -> Wide:
    """The coordinate-wise median, (n,) float64.

    >>> median(np.array([[1, 0], [2, 0], [900, 7]], np.float32)).tolist()
    [2.0, 0.0]
    """
    return np.concatenate([np.median(block, axis=0) for block in blocks(updates)])


def trimmed_mean(updates: Updates, malicious: int) -> Wide:
    """The coordinate-wise trimmed mean, (n,) float64.

    >>> trimmed_mean(np.array([[1], [2], [4], [900]], np.float32), 1).tolist()
    [3.0]

    Args:
        updates: (k, n) float32.
        malicious: f, below k / 2.
    """
    kept = slice(malicious, len(updates) - malicious)
    return np.concatenate([np.sort(block, axis=0)[kept].mean(axis=0) for block in blocks(updates)])
