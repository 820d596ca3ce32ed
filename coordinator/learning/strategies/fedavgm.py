"""FedAvgM: server momentum.

::

    m = beta1 m + d
    x + eta m

d is not scaled by (1 - beta1), so in the long run a step is 1 / (1 - beta1) times FedAvg's.

Source: Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
section 4.3.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.strategies.server_optimizer import ServerOptimizer, State, Wide, moved
from wire.parameters import Vector


def fed_avg_m(learning_rate: float, momentum: float) -> ServerOptimizer:
    """``m = beta1 m + d; x + eta m``; the state is m."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        velocity = momentum * state[0] + mean
        return moved(weights, learning_rate * velocity), np.stack([velocity])

    return ServerOptimizer(lambda size: np.zeros((1, size)), apply)
