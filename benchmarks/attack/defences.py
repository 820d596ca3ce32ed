"""Defences by name: what stands between a device and an attacker.

``default`` is a task that names no setting: topk-4 at 1 %. ``household``, ``hundreds`` and ``thousands`` are what
``init --fleet`` writes: codec, rates and strategy. ``none`` averages without clipping. An aggregation of the
coordinator, such as ``multi-krum``, takes the place of the mean; ``median@dense-f32`` also takes another codec.

``secure-sum`` is the product's sum of low rank without its cryptography: a single report is uniformly random to
everybody, so the attack sees nothing of it; the coordinator learns the exact sum of what the devices encode, and can
check none of it. Honest devices clip; malicious ones give whatever the modulus holds, at full weight. ``secure-dp`` is
the same with noise: epsilon 10, and each device in four rounds.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import lru_cache

import numpy as np
from msgspec import convert
from msgspec.structs import replace

from nightjar.coordinator.learning.fedavg import Aggregate, Averaged, ClientUpdate, federated_average
from nightjar.coordinator.learning.robust import aggregate_for
from nightjar.coordinator.learning.strategies import Aggregation, ServerOptimizer, Weighting, optimizer_for
from nightjar.coordinator.learning.summed import SumAveraged, average_of_sum, first_bases, sum_order
from nightjar.coordinator.tasks.fleets import SETTINGS, FleetSize
from nightjar.coordinator.tasks.settings import CodecConfig, PlanConfig, Privacy, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import noise_terms, strategy_faults
from nightjar.simulation.laboratory.clients import Device, Reported, as_read
from nightjar.wire.codec import NAMES, Sparse, codec_for
from nightjar.wire.errors import ConfigError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice, TrainingPlan
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.order import FURTHER_VALUES, contribution, values_of

NOISED = TaskSettings(privacy=Privacy.SECURE_DP, rounds=200, minimum_separation=50)
UNCLIPPED, MOST_LEVELS = 1e9, 2**15


@dataclass(frozen=True, slots=True)
class Defence:
    """One way to run a round."""

    name: str
    codec: CodecChoice  # how updates are encoded
    strategy: StrategyConfig  # how they are combined
    clips: bool = True  # whether they are clipped
    privacy: Privacy = Privacy.NONE  # whether and how they are summed
    plan: TrainingPlan = field(default_factory=lambda: PlanConfig().plan(StrategyConfig().name))  # how devices train

    def applied_to(self, device: Device) -> Device:
        """The devices of a scene, training and encoding by this defence."""
        return replace_fields(device, codec=self.codec, plan=self.plan)

    def first_state(self, layout: ParameterLayout) -> RoundState:
        """The state before the first round."""
        if not self.privacy.summed:
            return RoundState(None if self.clips else math.inf)
        return RoundState(PlanConfig().first_norm, _first_bases(layout), np.zeros(layout.size, np.float32))

    def average(
        self,
        reports: Sequence[SentUpdate],
        weights: Vector,
        layout: ParameterLayout,
        state: RoundState,
        number: int,
    ) -> tuple[Averaged, RoundState]:
        """The product's averaging in the round of a number, and the state after it."""
        choice = self.strategy.choice()
        optimizer = optimizer_for(choice)
        if self.privacy.summed:
            found = self._sum(reports, weights, layout, state, number)
            return found.averaged, RoundState(found.averaged.clip_norm, found.bases, found.average)
        aggregate = aggregate_for(choice, np.random.default_rng(number))
        averaged = average_of(reports, weights, layout, self.codec, optimizer, state.clip_norm, aggregate)
        return averaged, RoundState(averaged.clip_norm)

    def _sum(
        self, reports: Sequence[SentUpdate], weights: Vector, layout: ParameterLayout, state: RoundState, number: int
    ) -> SumAveraged:
        cohort, optimizer = len(reports), optimizer_for(self.strategy.choice())
        # Another cohort in the round of the same number has other noise.
        rng = np.random.default_rng([zlib.crc32(f"{number} {[each.device for each in reports]}".encode())])
        clip_norm, noise = state.clip_norm or PlanConfig().first_norm, None
        if self.privacy.noised:
            noise = noise_terms(replace(NOISED, minimum=cohort), "")
        order = sum_order(number, cohort, cohort, layout, clip_norm, noise)
        bases, spread = from_bytes(state.bases, layout, order.rank)
        malicious = sum(not each.honest for each in reports)
        room = min(2 ** (order.bits - 2) // max(1, malicious), MOST_LEVELS)  # together, half of what the sum holds
        free = replace(order, clip_norm=UNCLIPPED, grid=replace(order.grid, most=max(room, order.grid.most)))
        total = np.zeros(values_of(order, layout) + FURTHER_VALUES, np.uint32)
        for each in reports:
            update = each.update.dense() if isinstance(each.update, Sparse) else each.update
            if each.honest:
                total += contribution(update, each.num_examples, order, layout, bases, spread, rng, rng)
            else:
                words = contribution(update, order.most_examples, free, layout, bases, spread, rng, rng)
                words[-FURTHER_VALUES:] = order.grid.most, 1
                total += words
        total &= np.uint32(2**order.bits - 1)
        return average_of_sum(
            weights,
            optimizer.init(layout.size),
            state.average,
            total,
            cohort,
            order,
            layout,
            state.bases,
            optimizer,
            rng,
        )


@dataclass(frozen=True, slots=True, eq=False)
class RoundState:
    """What a defence keeps from round to round."""

    clip_norm: float | None  # None is learned from the cohort
    bases: bytes = b""  # of sums
    average: Vector = field(default_factory=lambda: np.zeros(0, np.float32))  # (n,) float32, of the sums so far


@lru_cache(1)
def _first_bases(layout: ParameterLayout) -> bytes:
    return first_bases(layout, np.random.default_rng(0))


@dataclass(frozen=True, slots=True)
class SentUpdate:
    """A report on its way."""

    device: DeviceId
    num_examples: int  # as the sender says
    update: Sparse | Vector  # as it will be read
    honest: bool = True  # whether the sender clips it


def sent(reported: Reported) -> SentUpdate:
    """What an honest device sends."""
    return SentUpdate(DeviceId(f"person-{reported.person:06d}"), reported.num_examples, reported.update)


def average_of(
    reports: Sequence[SentUpdate],
    weights: Vector,
    layout: ParameterLayout,
    codec: CodecChoice,
    optimizer: ServerOptimizer,
    clip_norm: float | None,
    aggregate: Aggregate | None,
    weighting: Weighting = Weighting.CAPPED,
) -> Averaged:
    """The product's averaging of reports, as a first round's."""
    return federated_average(
        weights,
        optimizer.init(layout.size),
        [ClientUpdate(each.device, each.num_examples, each.device.encode) for each in reports],
        as_read({each.device.encode(): each.update for each in reports}, codec_for(codec)),
        layout,
        optimizer,
        clip_norm,
        aggregate=aggregate,
        weighting=weighting,
    )


def defence(name: str, cohort: int) -> Defence:
    """The defence of a name: default, a fleet's size, none, secure-sum, secure-dp, AGGREGATION, or AGGREGATION@CODEC.

    Raises:
        ConfigError: there is none, or the product refuses the combination for a cohort of this size.
    """
    usual, dense, mean = CodecConfig(), CodecConfig(name="dense-f32"), StrategyConfig()
    if name in {"default", "none"}:
        return Defence(name, usual.choice(), mean, clips=name == "default")
    if name in {each.value for each in FleetSize}:
        return _of_fleet(FleetSize(name))
    if name in {Privacy.SECURE_SUM.value, Privacy.SECURE_DP.value}:
        return Defence(name, dense.choice(), mean, privacy=Privacy(name))
    rule, _, coded = name.partition("@")
    possible = [each.value for each in Aggregation]
    if rule not in possible or (coded and coded not in NAMES):
        known = ", ".join(
            ("default", *(each.value for each in FleetSize), "none", "secure-sum", "secure-dp", *possible)
        )
        msg = f"--defences: expected one of {known}, rules also with @CODEC, got {name!r}"
        raise ConfigError(msg)
    codec = CodecConfig(name=coded) if coded else usual
    strategy = StrategyConfig(aggregation=Aggregation(rule))
    faults = strategy_faults(strategy, PlanConfig(), codec, cohort)
    if faults:
        msg = f"--defences {name}: {'; '.join(faults)}"
        raise ConfigError(msg)
    return Defence(name, codec.choice(), strategy)


def _of_fleet(fleet: FleetSize) -> Defence:
    codec, strategy, plan = (
        {name.removeprefix(table): value for name, value in SETTINGS[fleet].items() if name.startswith(table)}
        for table in ("task.codec.", "task.strategy.", "task.plan.")
    )
    flat = {name: value for name, value in strategy.items() if "." not in name}  # one round has no schedule
    return Defence(
        fleet.value,
        convert(codec, CodecConfig).choice(),
        convert(flat, StrategyConfig),
        plan=convert(plan, PlanConfig).plan(str(flat["name"])),
    )
