"""The average of the last weights: smoother than the weights of any one round.

With x_r as the weights after round r and a window of K rounds::

    y_r = y_(r-1) + (x_r - y_(r-1)) / min(r, K)

Over the first K rounds y is the plain mean; then it forgets with the rate 1 / K. Devices go on training x.

Sources: Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; Izmailov et al. 2018,
"Averaging Weights Leads to Wider Optima and Better Generalization".
"""

from __future__ import annotations

from nightjar.coordinator.learning.strategies.server_optimizer import Wide
from nightjar.wire.parameters import Vector


def last_average(mean: Wide, weights: Vector, number: int, window: int) -> Wide:
    """y_r.

    >>> import numpy as np
    >>> y = last_average(np.zeros(1), np.array([4.0], np.float32), number=1, window=2)
    >>> y = last_average(y, np.array([8.0], np.float32), number=2, window=2)
    >>> y.tolist(), last_average(y, np.array([8.0], np.float32), number=3, window=2).tolist()
    ([6.0], [7.0])

    Args:
        mean: (n,) float64, y_(r-1).
        weights: (n,) float32, x_r.
        number: r, from 1.
        window: K, from 1; 1 is x_r itself.
    """
    return mean + (weights - mean) / min(number, window)
