"""Strategies: how the mean update of a round changes the model.

With mean update d, weights x, learning rate eta, and element-wise arithmetic in float64; d points downhill, so it is
added. Each page has its paper and its formulas:

- ``fedavg``: FedAvg, FedSGD and FedProx;
- ``fedavgm``: server momentum;
- ``adaptive``: FedAdagrad, FedAdam and FedYogi;
- ``aggregation``: how a cohort's updates become d;
- ``rate_schedule``: how eta changes from round to round;
- ``last_average``: the average of the last weights;
- ``power_of_choice``: which of the waiting devices take part;
- ``stored_state``: the state between two rounds.

To add a strategy, add a page, a name and a line in :func:`optimizer_for`.
"""

from __future__ import annotations

import enum

import msgspec

from coordinator.learning.strategies.adaptive import fed_adagrad, fed_adam, fed_yogi
from coordinator.learning.strategies.aggregation import Aggregation
from coordinator.learning.strategies.fedavg import fed_avg
from coordinator.learning.strategies.fedavgm import fed_avg_m
from coordinator.learning.strategies.last_average import last_average
from coordinator.learning.strategies.power_of_choice import highest_losses
from coordinator.learning.strategies.rate_schedule import RateSchedule, rate_share
from coordinator.learning.strategies.server_optimizer import ServerOptimizer, State, Wide
from coordinator.learning.strategies.stored_state import state_from_bytes, state_to_bytes

__all__ = [
    "ADAPTIVE",
    "Aggregation",
    "RateSchedule",
    "ServerOptimizer",
    "State",
    "StrategyChoice",
    "StrategyName",
    "Wide",
    "highest_losses",
    "last_average",
    "optimizer_for",
    "state_from_bytes",
    "state_to_bytes",
]


class StrategyName(enum.Enum):
    """The strategies by name."""

    FEDSGD = "fedsgd"
    """FedAvg of one step per device."""
    FEDAVG = "fedavg"
    FEDPROX = "fedprox"
    """FedAvg with ``plan.proximal``."""
    FEDAVGM = "fedavgm"
    FEDADAGRAD = "fedadagrad"
    FEDADAM = "fedadam"
    FEDYOGI = "fedyogi"


ADAPTIVE = frozenset({StrategyName.FEDADAGRAD, StrategyName.FEDADAM, StrategyName.FEDYOGI})


class StrategyChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy with its constants; it uses only those in its formulas.

    Attributes:
        name: name of the strategy.
        learning_rate: eta before the schedule.
        momentum: beta1, in [0, 1).
        second_momentum: beta2, in [0, 1).
        adaptivity: tau, positive: the larger, the less the step adapts to each coordinate.
        schedule: how eta changes from round to round.
        aggregation: how the updates of a cohort are combined.
        attackers: share of the devices that some aggregations expect to be malicious.
    """

    name: StrategyName
    learning_rate: float
    momentum: float = 0.9
    second_momentum: float = 0.99
    adaptivity: float = 1e-4
    schedule: RateSchedule = RateSchedule()
    aggregation: Aggregation = Aggregation.MEAN
    attackers: float = 0.1


def optimizer_for(choice: StrategyChoice, committed: int = 0) -> ServerOptimizer:
    """The server optimizer of a strategy in a round.

    Args:
        choice: name and constants of the strategy.
        committed: number of rounds that the task has committed; the schedule depends on it.

    >>> import numpy as np
    >>> fed_avg_with_rate_2 = optimizer_for(StrategyChoice(name=StrategyName.FEDAVG, learning_rate=2.0))
    >>> fed_avg_with_rate_2.apply(np.ones(1, np.float32), np.array([0.5]), fed_avg_with_rate_2.init(1))[0].tolist()
    [2.0]
    """
    rate = choice.learning_rate * rate_share(choice.schedule, committed)
    beta1, beta2, tau = choice.momentum, choice.second_momentum, choice.adaptivity
    match choice.name:
        case StrategyName.FEDAVG | StrategyName.FEDSGD | StrategyName.FEDPROX:
            return fed_avg(rate)
        case StrategyName.FEDAVGM:
            return fed_avg_m(rate, beta1)
        case StrategyName.FEDADAGRAD:
            return fed_adagrad(rate, tau)
        case StrategyName.FEDADAM:
            return fed_adam(rate, beta1, beta2, tau)
        case StrategyName.FEDYOGI:
            return fed_yogi(rate, beta1, beta2, tau)
