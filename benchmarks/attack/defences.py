"""Defences by name: what stands between a device and an attacker.

``default`` is what the product does. ``none`` averages without clipping. An aggregation of the coordinator, such as
``multi-krum``, takes the place of the mean; ``median@dense-f32`` also takes another codec.

``secure-sum`` is a secure aggregation as it looks from outside, modelled without its cryptography: a single report is
uniformly random to everybody, so the attack sees nothing of it; the coordinator learns the exact sum of the cohort's
dense updates, and can check and clip none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.learning.fedavg import Averaged, ClientUpdate, federated_average
from coordinator.learning.robust import aggregate_for
from coordinator.learning.strategies import Aggregation, optimizer_for
from coordinator.tasks.settings import CodecConfig, PlanConfig, StrategyConfig, strategy_faults
from simulation.laboratory.clients import Reported, as_read
from wire.codec import NAMES, Sparse, codec_for
from wire.errors import ConfigError
from wire.identifiers import DeviceId
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector


@dataclass(frozen=True, slots=True)
class Defence:
    """One way to run a round.

    Attributes:
        name: its name in the output.
        codec: how updates are encoded.
        strategy: how they are combined.
        clips: whether the coordinator clips each update.
        reports_readable: whether the coordinator or the broker can read a single report.
    """

    name: str
    codec: CodecChoice
    strategy: StrategyConfig
    clips: bool = True
    reports_readable: bool = True

    @property
    def first_clip_norm(self) -> float | None:
        """Clip norm of the first round: None is learned from its cohort."""
        return None if self.clips else math.inf

    def average(
        self,
        reports: Sequence[SentUpdate],
        weights: Vector,
        layout: ParameterLayout,
        clip_norm: float | None,
        number: int,
    ) -> Averaged:
        """The product's averaging in the round of a number."""
        choice = self.strategy.choice()
        optimizer = optimizer_for(choice)
        return federated_average(
            weights,
            optimizer.init(layout.size),
            [ClientUpdate(each.device, each.num_examples, each.device.encode) for each in reports],
            as_read({each.device.encode(): each.update for each in reports}, codec_for(self.codec)),
            layout,
            optimizer,
            clip_norm,
            aggregate=aggregate_for(choice, np.random.default_rng(number)),
        )


@dataclass(frozen=True, slots=True)
class SentUpdate:
    """A report on its way.

    Attributes:
        device: its sender.
        num_examples: as the sender says.
        update: as it will be read.
    """

    device: DeviceId
    num_examples: int
    update: Sparse | Vector


def sent(reported: Reported) -> SentUpdate:
    """What an honest device sends."""
    return SentUpdate(DeviceId(f"person-{reported.person:06d}"), reported.num_examples, reported.update)


def defence(name: str, cohort: int) -> Defence:
    """The defence of a name.

    Args:
        name: default, none, secure-sum, or AGGREGATION, or AGGREGATION@CODEC.
        cohort: devices in a round.

    Raises:
        ConfigError: there is none, or the product refuses the combination.
    """
    usual, dense, mean = CodecConfig(), CodecConfig(name="dense-f32"), StrategyConfig()
    if name in {"default", "none"}:
        return Defence(name, usual.choice(), mean, clips=name == "default")
    if name == "secure-sum":
        return Defence(name, dense.choice(), mean, clips=False, reports_readable=False)
    rule, _, coded = name.partition("@")
    possible = [each.value for each in Aggregation]
    if rule not in possible or (coded and coded not in NAMES):
        msg = f"--defences: expected default, none, secure-sum, or {', '.join(possible)} with @CODEC, got {name!r}"
        raise ConfigError(msg)
    codec = CodecConfig(name=coded) if coded else usual
    strategy = StrategyConfig(aggregation=Aggregation(rule))
    faults = strategy_faults(strategy, PlanConfig(), codec, cohort)
    if faults:
        msg = f"--defences {name}: {'; '.join(faults)}"
        raise ConfigError(msg)
    return Defence(name, codec.choice(), strategy)
