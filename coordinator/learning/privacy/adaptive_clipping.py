"""The clip norm of a private task that follows a quantile of its updates' norms, by a noised count. Pure.

With C as the clip norm, b_k = 1 if update k is within C and else 0, gamma as the wanted share of such updates, n as the
goal, z as the noise multiplier of the sum, and g as the step of a tree noise of its own::

    C' = C exp(-eta (sum(b_k - gamma) + 5 z max(gamma, 1 - gamma) g) / n)        eta = 0.2

One device moves the count by at most max(gamma, 1 - gamma). Sum and count are two mechanisms on the same devices, which
dp-accounting composes. With five times as much noise in the count, the noise of the sum grows by 2 %.

That C changes within a tree breaks no promise: its leaves are sums in units of the C of their round, so that a device
is at most 1 long in each, and C follows from earlier counts with their noise. A leaf may depend on what was published.

Sources: Andrew et al. 2021, "Differentially Private Learning with Adaptive Clipping", algorithm 1; Denisov et al. 2022,
"Improved Differential Privacy for SGD via Optimal Private Linear Operators on Adaptive Streams", for such leaves.
"""

from __future__ import annotations

import math

from nightjar.coordinator.learning.fedavg import ETA
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms

COUNT_NOISE = 5.0
"""Noise multiplier of the count over that of the sum: the count costs a 26th of what both together do."""
MOST_DEVIATION = 0.05
"""Largest deviation of the count's noise over the goal, as in the paper."""
_PURPOSE = b"count"


def next_private_norm(terms: NoiseTerms, step: int, clip_norm: float, within: int, updates: int) -> float:
    """The clip norm of the next round.

    >>> terms = NoiseTerms(clip_norm=4.0, devices=10, multiplier=0.0, separation=1, key="ab", quantile=0.5)
    >>> round(next_private_norm(terms, 0, 4.0, 10, 10), 3), round(next_private_norm(terms, 0, 4.0, 5, 10), 3)
    (3.619, 4.0)

    C stays without a quantile. ``step`` is the number of the rounds that the task committed before, and ``within`` that
    of the updates within C.
    """
    if terms.quantile is None:
        return clip_norm
    noise = count_deviation(terms.multiplier, terms.quantile) * float(terms.noise(step, 1, _PURPOSE)[0])
    return clip_norm * math.exp(-ETA * (within - terms.quantile * updates + noise) / terms.devices)


def count_deviation(multiplier: float, quantile: float) -> float:
    """Deviation of a node's noise in the count of devices.

    >>> count_deviation(3.0, 0.5), count_deviation(3.0, 0.9)
    (7.5, 13.5)
    """
    return COUNT_NOISE * multiplier * max(quantile, 1 - quantile)


def fewest_reports(multiplier: float, quantile: float) -> int:
    """The least goal with which the count still says something.

    >>> fewest_reports(3.0, 0.5)
    150
    """
    return math.ceil(count_deviation(multiplier, quantile) / MOST_DEVIATION)
