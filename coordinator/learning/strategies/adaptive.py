"""FedAdagrad, FedAdam and FedYogi: each coordinate has a step of its own.

========== ============================================= =================================
strategy   state                                         step
========== ============================================= =================================
fedadagrad v = v + d^2                                   x + eta d / (sqrt(v) + tau)
fedadam    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = beta2 v + (1 - beta2) d^2
fedyogi    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = v - (1 - beta2) d^2 sign(v - d^2)
========== ============================================= =================================

v starts at tau^2 and m at 0, and there is no bias correction. FedAdagrad has no momentum, as in the paper's
experiments.

Source: Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coordinator.learning.strategies.server_optimizer import ServerOptimizer, State, Wide, moved
from wire.parameters import Vector


def fed_adagrad(learning_rate: float, adaptivity: float) -> ServerOptimizer:
    """``v = v + d^2; x + eta d / (sqrt(v) + tau)``; the state is v."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        second = state[0] + mean * mean
        return moved(weights, learning_rate * mean / (np.sqrt(second) + adaptivity)), np.stack([second])

    return ServerOptimizer(lambda size: np.full((1, size), adaptivity**2), apply)


def fed_adam(learning_rate: float, momentum: float, second_momentum: float, adaptivity: float) -> ServerOptimizer:
    """Adam without bias correction; the state is m and v."""

    def moment(second: Wide, squared: Wide) -> Wide:
        return second_momentum * second + (1 - second_momentum) * squared

    return _with_moments(learning_rate, momentum, adaptivity, moment)


def fed_yogi(learning_rate: float, momentum: float, second_momentum: float, adaptivity: float) -> ServerOptimizer:
    """Like FedAdam, but v moves by at most ``(1 - beta2) d^2``, so one large round is forgotten only gradually."""

    def moment(second: Wide, squared: Wide) -> Wide:
        return second - (1 - second_momentum) * squared * np.sign(second - squared)

    return _with_moments(learning_rate, momentum, adaptivity, moment)


def _with_moments(
    learning_rate: float,
    momentum: float,
    adaptivity: float,
    moment: Callable[[Wide, Wide], Wide],
) -> ServerOptimizer:
    def init(size: int) -> State:
        return np.stack([np.zeros(size), np.full(size, adaptivity**2)])

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        first = momentum * state[0] + (1 - momentum) * mean
        second = moment(state[1], mean * mean)
        step = learning_rate * first / (np.sqrt(second) + adaptivity)
        return moved(weights, step), np.stack([first, second])

    return ServerOptimizer(init, apply)
