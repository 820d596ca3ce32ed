"""Server optimizers: how the mean update of a round changes the model.

With mean update d, weights x, learning rate eta, and element-wise arithmetic in float64; d points downhill, so it is
added:

========== ============================================= =================================
optimizer  state                                         step
========== ============================================= =================================
fedavg                                                   x + eta d
fedavgm    m = beta1 m + d                               x + eta m
fedadagrad v = v + d^2                                   x + eta d / (sqrt(v) + tau)
fedadam    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = beta2 v + (1 - beta2) d^2
fedyogi    m = beta1 m + (1 - beta1) d                   x + eta m / (sqrt(v) + tau)
           v = v - (1 - beta2) d^2 sign(v - d^2)
========== ============================================= =================================

As in the paper, v starts at tau^2 and m at 0, and there is no bias correction. FedAdagrad has no momentum, as in the
paper's experiments. FedAvgM does not scale d by (1 - beta1), so in the long run its step is 1 / (1 - beta1) times
FedAvg's.

Each optimizer is a pair of pure functions that take the state and return the next one; nothing is modified in place.

Source: Reddi et al. 2021, "Adaptive Federated Optimization", algorithm 2; FedAvg is McMahan et al. 2017, FedAvgM Hsu et
al. 2019.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from wire.parameters import Vector

Wide = npt.NDArray[np.float64]
"""(n,) float64."""
State = npt.NDArray[np.float64]
"""(vectors, n) float64: what an optimizer keeps from round to round; FedAvg has no vectors."""


class OptimizerName(enum.Enum):
    """The server optimizers by name."""

    FEDAVG = "fedavg"
    FEDAVGM = "fedavgm"
    FEDADAGRAD = "fedadagrad"
    FEDADAM = "fedadam"
    FEDYOGI = "fedyogi"


class OptimizerChoice(msgspec.Struct, frozen=True, kw_only=True):
    """An optimizer with its constants; it uses only those in its row of the module's table.

    Attributes:
        name: name of the optimizer.
        learning_rate: eta.
        momentum: beta1, in [0, 1).
        second_momentum: beta2, in [0, 1).
        adaptivity: tau, positive: the larger, the less the step adapts to each coordinate.
    """

    name: OptimizerName
    learning_rate: float
    momentum: float = 0.9
    second_momentum: float = 0.99
    adaptivity: float = 1e-4


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update changes the model.

    Attributes:
        init: n -> initial state.
        apply: (weights (n,) float32, mean (n,) float64, state) -> (next weights (n,) float32, next state).
    """

    init: Callable[[int], State]
    apply: Callable[[Vector, Wide, State], tuple[Vector, State]]


def optimizer_for(choice: OptimizerChoice) -> ServerOptimizer:
    """The optimizer of a task.

    Args:
        choice: name and constants of the optimizer.

    >>> fed_avg_with_rate_2 = optimizer_for(OptimizerChoice(name=OptimizerName.FEDAVG, learning_rate=2.0))
    >>> fed_avg_with_rate_2.apply(np.ones(1, np.float32), np.array([0.5]), fed_avg_with_rate_2.init(1))[0].tolist()
    [2.0]
    """
    rate, beta1, beta2, tau = choice.learning_rate, choice.momentum, choice.second_momentum, choice.adaptivity
    match choice.name:
        case OptimizerName.FEDAVG:
            return fed_avg(rate)
        case OptimizerName.FEDAVGM:
            return fed_avg_m(rate, beta1)
        case OptimizerName.FEDADAGRAD:
            return fed_adagrad(rate, tau)
        case OptimizerName.FEDADAM:
            return fed_adam(rate, beta1, beta2, tau)
        case OptimizerName.FEDYOGI:
            return fed_yogi(rate, beta1, beta2, tau)


def fed_avg(learning_rate: float) -> ServerOptimizer:
    """``x + eta d``; no state. Learning rate 1 is McMahan's FedAvg."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        return _moved(weights, learning_rate * mean), state

    return ServerOptimizer(lambda size: np.zeros((0, size)), apply)


def fed_avg_m(learning_rate: float, momentum: float) -> ServerOptimizer:
    """``m = beta1 m + d; x + eta m``; the state is m."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        velocity = momentum * state[0] + mean
        return _moved(weights, learning_rate * velocity), np.stack([velocity])

    return ServerOptimizer(lambda size: np.zeros((1, size)), apply)


def fed_adagrad(learning_rate: float, adaptivity: float) -> ServerOptimizer:
    """``v = v + d^2; x + eta d / (sqrt(v) + tau)``; the state is v."""

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        d = mean
        second = state[0] + d * d
        return _moved(weights, learning_rate * d / (np.sqrt(second) + adaptivity)), np.stack([second])

    return ServerOptimizer(lambda size: np.full((1, size), adaptivity**2), apply)


def fed_adam(learning_rate: float, momentum: float, second_momentum: float, adaptivity: float) -> ServerOptimizer:
    """Adam without bias correction; the state is m and v."""

    def moment(second: Wide, squared: Wide) -> Wide:
        return second_momentum * second + (1 - second_momentum) * squared

    return _adaptive(learning_rate, momentum, adaptivity, moment)


def fed_yogi(learning_rate: float, momentum: float, second_momentum: float, adaptivity: float) -> ServerOptimizer:
    """Like FedAdam, but v moves by at most ``(1 - beta2) d^2``, so one large round is forgotten only gradually."""

    def moment(second: Wide, squared: Wide) -> Wide:
        return second - (1 - second_momentum) * squared * np.sign(second - squared)

    return _adaptive(learning_rate, momentum, adaptivity, moment)


def _adaptive(
    learning_rate: float,
    momentum: float,
    adaptivity: float,
    moment: Callable[[Wide, Wide], Wide],
) -> ServerOptimizer:
    def init(size: int) -> State:
        return np.stack([np.zeros(size), np.full(size, adaptivity**2)])

    def apply(weights: Vector, mean: Wide, state: State) -> tuple[Vector, State]:
        d = mean
        first = momentum * state[0] + (1 - momentum) * d
        second = moment(state[1], d * d)
        step = learning_rate * first / (np.sqrt(second) + adaptivity)
        return _moved(weights, step), np.stack([first, second])

    return ServerOptimizer(init, apply)


def _moved(weights: Vector, step: Wide) -> Vector:
    return (weights.astype(np.float64) + step).astype(np.float32)


def state_to_bytes(name: OptimizerName, state: State) -> bytes:
    """A state as stored: the optimizer's name, a line feed, the vectors as little-endian float64."""
    return _head(name) + state.astype("<f8").tobytes()


def state_from_bytes(data: bytes, name: OptimizerName, first: State) -> State:
    """Inverse of :func:`state_to_bytes`.

    >>> kept = state_to_bytes(OptimizerName.FEDAVGM, np.array([[3.0]]))
    >>> state_from_bytes(kept, OptimizerName.FEDAVGM, np.zeros((1, 1))).tolist()
    [[3.0]]
    >>> state_from_bytes(kept, OptimizerName.FEDADAGRAD, np.zeros((1, 1))).tolist()
    [[0.0]]

    Args:
        data: the stored bytes.
        name: the optimizer that will use the state.
        first: the initial state of that optimizer.

    Returns:
        The stored state. If it belongs to another optimizer or model, because the task was changed, ``first``: numbers
        with another meaning would do harm.
    """
    whose, _, body = data.partition(b"\n")
    if whose != name.value.encode() or len(body) != 8 * first.size:
        return first
    return np.frombuffer(body, "<f8").astype(np.float64).reshape(first.shape)


def _head(name: OptimizerName) -> bytes:
    return name.value.encode() + b"\n"
