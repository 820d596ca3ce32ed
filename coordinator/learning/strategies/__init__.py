"""Strategies: how the mean update of a round changes the model.

- ``server_optimizer``: the strategies' formulas and papers;
- ``rate_schedule``: how their learning rate changes from round to round;
- ``last_average``: the average of the last weights;
- ``power_of_choice``: which of the waiting devices take part.

To add a strategy, add a function to ``server_optimizer``, a name and a line in :data:`OURS`. Another package brings one
by the entry point ``nightjar.strategies``: a function from a :class:`StrategyChoice`, whose rate the schedule has
changed already, to a :class:`ServerOptimizer`.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.learning.strategies.last_average import last_average
from nightjar.coordinator.learning.strategies.power_of_choice import highest_losses
from nightjar.coordinator.learning.strategies.rate_schedule import RateSchedule, rate_share
from nightjar.coordinator.learning.strategies.server_optimizer import (
    ServerOptimizer,
    State,
    Wide,
    fed_adagrad,
    fed_adam,
    fed_avg,
    fed_avg_m,
    fed_yogi,
    state_from_bytes,
    state_to_bytes,
)
from nightjar.wire.errors import ConfigError
from nightjar.wire.plugins import Plugin, found

__all__ = [
    "ADAPTIVE",
    "Aggregation",
    "RateSchedule",
    "ServerOptimizer",
    "State",
    "StrategyChoice",
    "StrategyName",
    "Weighting",
    "Wide",
    "highest_losses",
    "last_average",
    "optimizer_for",
    "state_from_bytes",
    "state_to_bytes",
    "strategies",
]


class Aggregation(enum.Enum):
    """How the updates of a cohort are combined; every rule but the mean gives up some of it for robustness."""

    MEAN = "mean"
    MEDIAN = "median"
    TRIMMED_MEAN = "trimmed-mean"
    MULTI_KRUM = "multi-krum"
    BULYAN = "bulyan"
    FOOLSGOLD = "foolsgold"
    FED_PLUS = "fed-plus"
    NOISY_MEAN = "noisy-mean"


class Weighting(enum.Enum):
    """How much the update of a device counts in the mean."""

    CAPPED = "capped"
    """Its number of examples, at most the cohort's median: a number that it claims buys no influence."""
    EXAMPLES = "examples"
    """Its number of examples, as McMahan et al. have it: for parties that trust each other."""
    EQUAL = "equal"


class StrategyName(enum.StrEnum):
    """Our own strategies by name."""

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
MEDIAN = 0.5
"""The default quantile of the clip norm: attackers are assumed to be fewer than half."""


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
        weighting: how much a device weighs.
        clip_quantile: share of the updates that the clip norm lets through whole, in (0, 1].
    """

    name: str
    learning_rate: float
    momentum: float = 0.9
    second_momentum: float = 0.99
    adaptivity: float = 1e-4
    schedule: RateSchedule = RateSchedule()
    aggregation: Aggregation = Aggregation.MEAN
    attackers: float = 0.1
    weighting: Weighting = Weighting.CAPPED
    clip_quantile: float = MEDIAN


Strategy = Callable[[StrategyChoice], ServerOptimizer]


def _fed_avg(choice: StrategyChoice) -> ServerOptimizer:
    return fed_avg(choice.learning_rate)


OURS: Mapping[str, Strategy] = {
    StrategyName.FEDSGD: _fed_avg,
    StrategyName.FEDAVG: _fed_avg,
    StrategyName.FEDPROX: _fed_avg,
    StrategyName.FEDAVGM: lambda c: fed_avg_m(c.learning_rate, c.momentum),
    StrategyName.FEDADAGRAD: lambda c: fed_adagrad(c.learning_rate, c.adaptivity),
    StrategyName.FEDADAM: lambda c: fed_adam(c.learning_rate, c.momentum, c.second_momentum, c.adaptivity),
    StrategyName.FEDYOGI: lambda c: fed_yogi(c.learning_rate, c.momentum, c.second_momentum, c.adaptivity),
}
"""Our own strategies."""
GROUP = "nightjar.strategies"


@functools.cache
def installed() -> dict[str, Plugin]:
    """All strategies of this installation by name, also those that cannot be used."""

    def fault(_name: str, value: Any) -> str:
        return "" if callable(value) else f"expected a function of a StrategyChoice, got {value!r}"[:300]

    return found(GROUP, {str(name): made for name, made in OURS.items()}, fault)


def strategies() -> tuple[str, ...]:
    """The names of the strategies that can be used here: our own first."""
    return tuple(name for name, plugin in installed().items() if not plugin.fault)


def optimizer_for(choice: StrategyChoice, committed: int = 0) -> ServerOptimizer:
    """The server optimizer of a strategy in a round, after ``committed`` rounds of its task.

    Raises:
        ConfigError: there is no such strategy here.

    >>> import numpy as np
    >>> fed_avg_with_rate_2 = optimizer_for(StrategyChoice(name=StrategyName.FEDAVG, learning_rate=2.0))
    >>> fed_avg_with_rate_2.apply(np.ones(1, np.float32), np.array([0.5]), fed_avg_with_rate_2.init(1))[0].tolist()
    [2.0]
    """
    plugin = installed().get(choice.name)
    if plugin is None or plugin.fault:
        msg = f"expected one of the strategies {', '.join(strategies())}, got {choice.name[:80]!r}"
        raise ConfigError(msg)
    made: ServerOptimizer = plugin.value(
        replace(choice, learning_rate=choice.learning_rate * rate_share(choice.schedule, committed))
    )
    return made
