"""FedAvg: the weighted mean of updates, and the server's optimizers.

McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data" (FedAvg);
Hsu et al. 2019 and Reddi et al. 2021, "Adaptive Federated Optimization" (server optimizers, FedAvgM).

Everything is summed in float64 in ascending order of devices, so the same reports give the same weights, bit for
bit, on every machine. Optimizers are pairs of pure functions; their state is passed in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wire.codec import Sparse
from wire.errors import LocalProtocolError
from wire.identifiers import DeviceId
from wire.parameters import Vector

Wide = npt.NDArray[np.float64]
"""(n,) float64: sums and optimizer state."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """One device's part of the mean.

    Attributes:
        device: whose it is; fixes the order of the sum.
        weight: its weight, positive.
        update: decoded delta.
    """

    device: DeviceId
    weight: float
    update: Sparse


def weight_of(num_examples: int, cap: int) -> float:
    """The weight of a report: its number of examples, capped, because a weight says something about its owner.

    >>> weight_of(30, 100), weight_of(30_000, 100)
    (30.0, 100.0)
    """
    return float(min(num_examples, cap))


def weighted_mean(contributions: Iterable[Contribution], size: int) -> Wide:
    """``sum(w_k delta_k) / sum(w_k)``, one contribution in memory at a time.

    >>> sparse = Sparse(2, np.array([0]), np.array([4.0], np.float32))
    >>> a, b = Contribution(DeviceId("a"), 1.0, sparse), Contribution(DeviceId("b"), 3.0, sparse)
    >>> weighted_mean([a, b], 2).tolist()
    [4.0, 0.0]

    Args:
        contributions: in strictly ascending order of devices.
        size: n.

    Returns:
        (n,) float64.

    Raises:
        LocalProtocolError: none at all, a device twice or out of order, a weight that is not positive, or a wrong size.
    """
    total = np.zeros(size, np.float64)
    weights = 0.0
    last = ""
    for contribution in contributions:
        if contribution.device <= last or contribution.weight <= 0 or contribution.update.size != size:
            msg = (
                f"expected devices in ascending order, positive weights and {size} parameters, got "
                f"{contribution.device} after {last!r} with {contribution.weight} and {contribution.update.size}"
            )
            raise LocalProtocolError(msg)
        update = contribution.update
        total[update.indices] += contribution.weight * update.values.astype(np.float64)
        weights += contribution.weight
        last = contribution.device
    if weights == 0:
        msg = "a mean needs at least one contribution"
        raise LocalProtocolError(msg)
    return total / weights


@dataclass(frozen=True, slots=True)
class ServerOptimizer:
    """How the mean update changes the model.

    Attributes:
        init: n -> first state.
        apply: (weights (n,) float32, mean (n,) float64, state) -> (next weights (n,) float32, next state).
    """

    init: Callable[[int], Wide]
    apply: Callable[[Vector, Wide, Wide], tuple[Vector, Wide]]


def fed_avg(learning_rate: float) -> ServerOptimizer:
    """``x <- x + eta * mean``; without state. Rate 1 is McMahan's FedAvg."""

    def apply(weights: Vector, mean: Wide, state: Wide) -> tuple[Vector, Wide]:
        return (weights.astype(np.float64) + learning_rate * mean).astype(np.float32), state

    return ServerOptimizer(lambda _size: np.zeros(0, np.float64), apply)


def fed_avg_m(learning_rate: float, momentum: float) -> ServerOptimizer:
    """``v <- beta v + mean; x <- x + eta v`` (Reddi et al. 2021, server SGD with momentum); the state is v."""

    def apply(weights: Vector, mean: Wide, state: Wide) -> tuple[Vector, Wide]:
        velocity = momentum * state + mean
        return (weights.astype(np.float64) + learning_rate * velocity).astype(np.float32), velocity

    return ServerOptimizer(lambda size: np.zeros(size, np.float64), apply)
