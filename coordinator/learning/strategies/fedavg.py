"""FedAvg: the weights move by the mean update.

::

    x + eta d

With ``eta = 1`` this is McMahan's FedAvg. Two strategies differ from it in the devices' work alone:

- FedSGD: each device takes one step along the mean gradient of all its examples (the plan says ``full_batch``);
- FedProx: each device minimises ``f(w) + mu / 2 |w - x|^2`` (``plan.proximal``), so that many local epochs drift less.

Sources: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1;
Li et al. 2020, "Federated Optimization in Heterogeneous Networks", algorithm 2.
"""

from __future__ import annotations

import numpy as np

from coordinator.learning.strategies.server_optimizer import ServerOptimizer, State, Wide, moved
from wire.parameters import Vector


def fed_avg(learning_rate: float) -> ServerOptimizer:
    """``x + eta d``; no state."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        return moved(weights, learning_rate * mean), state

    return ServerOptimizer(lambda size: np.zeros((0, size)), apply)
