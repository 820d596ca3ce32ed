"""Server optimizers: pairs of pure functions that take a state and return the next one.

With mean update d, weights x, learning rate eta, and element-wise arithmetic in float64; d points downhill, so it is
added:

========== ============================================= =================================
strategy   state                                         step
========== ============================================= =================================
fedavg     none                                          x + eta d
fedavgm    m = beta1 m + d                               x + eta m
fedadagrad v = v + d^2                                   x + eta d / (sqrt(v) + tau)
fedadam    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = beta2 v + (1 - beta2) d^2
fedyogi    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = v - (1 - beta2) d^2 sign(v - d^2)
========== ============================================= =================================

v starts at tau^2 and m at 0, and there is no bias correction. FedAdagrad has no momentum, as in the paper's
experiments. FedAvgM does not scale d by (1 - beta1), so in the long run its step is 1 / (1 - beta1) times FedAvg's.

With ``eta = 1`` FedAvg is McMahan's. Two strategies differ from it in the devices' work alone:

- FedSGD: each device takes one step along the mean gradient of all its examples (the plan says ``full_batch``);
- FedProx: each device minimises ``f(w) + mu / 2 |w - x|^2`` (``plan.proximal``), so that many local epochs drift less.

Sources: McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1;
Li et al. 2020, "Federated Optimization in Heterogeneous Networks", algorithm 2; Hsu et al. 2019, "Measuring the Effects
of Non-Identical Data Distribution for Federated Visual Classification", section 4.3; Reddi et al. 2021, "Adaptive
Federated Optimization", algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.parameters import Vector

Wide = npt.NDArray[np.float64]
"""(n,) float64."""
State = npt.NDArray[np.float64]
"""(vectors, n) float64: what an optimizer keeps from round to round; FedAvg has no vectors."""


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update of a round changes the model. Nothing is modified in place.

    Attributes:
        init: n -> initial state.
        apply: (weights (n,) float32, mean (n,) float64, state) -> (next weights (n,) float32, next state).
    """

    init: Callable[[int], State]
    apply: Callable[[Vector, Wide, State], tuple[Vector, State]]


def moved(weights: Vector, step: Wide) -> Vector:
    """``weights + step``, added in float64."""
    return (weights.astype(np.float64) + step).astype(np.float32)


def fed_avg(learning_rate: float) -> ServerOptimizer:
    """FedAvg, FedSGD and FedProx; no state."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        return moved(weights, learning_rate * mean), state

    return ServerOptimizer(lambda size: np.zeros((0, size)), apply)


def fed_avg_m(learning_rate: float, momentum: float) -> ServerOptimizer:
    """Server momentum; the state is m."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        velocity = momentum * state[0] + mean
        return moved(weights, learning_rate * velocity), np.stack([velocity])

    return ServerOptimizer(lambda size: np.zeros((1, size)), apply)


def fed_adagrad(learning_rate: float, adaptivity: float) -> ServerOptimizer:
    """A step of its own for each coordinate; the state is v."""

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


def state_to_bytes(name: str, state: State) -> bytes:
    """A state as stored: the strategy's name, a line feed, the vectors as little-endian float64."""
    return name.encode() + b"\n" + state.astype("<f8").tobytes()


def state_from_bytes(data: bytes, name: str, first: State) -> State:
    """Inverse of :func:`state_to_bytes`.

    >>> kept = state_to_bytes("fedavgm", np.array([[3.0]]))
    >>> state_from_bytes(kept, "fedavgm", np.zeros((1, 1))).tolist()
    [[3.0]]
    >>> state_from_bytes(kept, "fedadagrad", np.zeros((1, 1))).tolist()
    [[0.0]]

    If it belongs to another strategy or model, because the task was changed, ``first`` instead, the initial state of
    the strategy that will use it: numbers with another meaning would do harm.
    """
    whose, _, body = data.partition(b"\n")
    if whose != name.encode() or len(body) != 8 * first.size:
        return first
    return np.frombuffer(body, "<f8").astype(np.float64).reshape(first.shape)
