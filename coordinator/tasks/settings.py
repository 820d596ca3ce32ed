"""The settings of a task, with the reason for each default. Pure.

:mod:`nightjar.coordinator.tasks.validation` checks which of them go together.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, force_setattr, replace

from nightjar.coordinator.learning.strategies import (
    ADAPTIVE,
    Aggregation,
    RateSchedule,
    StrategyChoice,
    StrategyName,
    Weighting,
)
from nightjar.coordinator.rounds.eligibility import Eligibility, Variant
from nightjar.coordinator.rounds.rules import SHORTEST_RETRY_SHARE, RoundRules, rules_for
from nightjar.coordinator.tasks.schedule import Schedule, StopRule
from nightjar.wire.messages import CodecChoice, TrainingPlan, Work
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, least_minimum

Count = Annotated[int, Meta(ge=1, le=2**31)]
Seconds = Annotated[float, Meta(ge=0, le=30 * 86400)]
MINIMUM = 10
"""As in ``[limits]``."""
KEEP_SHARE = 0.5
"""A device that has to stop after at least this share of its steps reports its update; earlier, it drops out."""
MIN_RETRY_S = 0.1
"""Minimum retry time, even for a selection of one second: a device must not come back at once."""
RETIRED = {"error_feedback": "devices keep nothing of an update any more (docs/adr/0007-default-codec.md)"}
"""Settings of a codec that there are no more, with the reason; files and stored tasks may still have them."""
PluginName = Annotated[
    str, Meta(pattern=r"^[a-z0-9_-]{1,64}$(?!\n)", description="1 to 64 small letters, digits, '_', '-'")
]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$(?!\n)",
        description="1 to 64 letters, digits, '_', '.', '-', of which the first is a letter or digit",
    ),
]


class CodecConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.codec]``: how updates are compressed."""

    name: str = "topk-4"  # at 1 %, some 400 (tiny) to 540 times (gboard) smaller than dense
    density: Annotated[float, Meta(gt=0, le=1)] = 0.01  # 1/100 of the values, 0.4 to 0.6 of the dense progress

    def choice(self) -> CodecChoice:
        """The codec choice as sent in an assignment."""
        return CodecChoice(name=self.name, density=self.density)


class PlanConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.plan]``: what a device does with its examples."""

    learning_rate: Annotated[float, Meta(gt=0, le=1000)] = 1.0  # the largest harmless after a warm start
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)] = 1.0  # rarely active; prevents NaN at large rates
    local_epochs: Annotated[int, Meta(ge=1, le=1000)] = 1  # with more epochs, devices drift apart
    max_steps: Annotated[int, Meta(ge=1, le=10**6)] = 1000  # bounds a device with much text
    proximal: Annotated[float, Meta(ge=0, le=1000)] = 0.0  # FedProx; one epoch drifts little
    evaluation_share: Annotated[float, Meta(ge=0, le=0.5)] = 0.1  # shows whether a round helped; 0 with privacy

    @property
    def first_norm(self) -> float:
        """Clip norm of updates before any is known: the longest way of a single step."""
        return self.learning_rate * self.clip_norm

    def plan(self, strategy: str) -> TrainingPlan:
        """The training plan as sent in an assignment; FedSGD takes one step with the gradient of all examples."""
        full_batch = strategy == StrategyName.FEDSGD
        return TrainingPlan(**asdict(self), full_batch=full_batch, keep_share=KEEP_SHARE)


class StrategyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.strategy]``: how the mean update changes the model.

    Attributes:
        name: fedsgd, fedavg, fedprox, fedavgm, fedadagrad, fedadam, fedyogi, or another package's.
        server_learning_rate: 0.003 for fedadagrad, fedadam and fedyogi, 1 for the others.
        adaptivity: tau of the adaptive strategies.
        aggregation: mean, median, trimmed-mean, multi-krum, bulyan, foolsgold, fed-plus or noisy-mean.
        attackers: share of a cohort that trimmed-mean, multi-krum and bulyan withstand.
        weighting: capped (examples, at most the cohort's median), examples (of those who trust each other), or equal.
        clip_quantile: share of the updates that is not clipped; 1, all, of those who trust each other.
    """

    name: PluginName = StrategyName.FEDAVG.value  # momentum harmed after a warm start
    server_learning_rate: Annotated[float, Meta(gt=0, le=1000)] | None = None  # 1 is FedAvg's
    adaptivity: Annotated[float, Meta(gt=0, le=1)] = 1e-4  # as in the measured runs
    schedule: RateSchedule = RateSchedule()
    aggregation: Aggregation = Aggregation.MEAN  # leaves no honest device out
    attackers: Annotated[float, Meta(ge=0, lt=0.5)] = 0.1  # as measured
    weighting: Weighting = Weighting.CAPPED  # nobody outweighs the others by a claim
    clip_quantile: Annotated[float, Meta(gt=0, le=1)] = 0.5  # attackers may be almost half

    def choice(self) -> StrategyChoice:
        """The strategy as sent to the worker."""
        settings = asdict(self)
        given, usual = settings.pop("server_learning_rate"), 0.003 if self.name in ADAPTIVE else 1.0
        return StrategyChoice(**settings, learning_rate=usual if given is None else given)


class Mode(enum.Enum):
    """How the rounds of a task run."""

    SYNCHRONOUS = "synchronous"
    """A round selects devices, waits for their reports, and ends."""
    BUFFERED = "buffered"
    """Devices are always at work; each ``goal`` reports make a version."""


class Privacy(enum.Enum):
    """How a task protects what devices learned."""

    NONE = "none"
    DP = "dp"
    """Differential privacy of each device: clipped updates, and noise in each mean."""
    SECURE_SUM = "secure-sum"
    """The coordinator learns only the sum of the reports (docs/adr/0038)."""
    SECURE_DP = "secure-dp"
    """Both: devices add the noise, so that the coordinator learns only a noised sum (docs/adr/0049)."""

    @property
    def noised(self) -> bool:
        """Whether there is differential privacy."""
        return self in {Privacy.DP, Privacy.SECURE_DP}

    @property
    def summed(self) -> bool:
        """Whether the reports are masked."""
        return self in {Privacy.SECURE_SUM, Privacy.SECURE_DP}


class DpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.dp]``: differential privacy of each device, with ``privacy = "dp"`` or ``"secure-dp"``.

    Attributes:
        epsilon: after all rounds.
        delta: chance that the promise fails.
        clip_norm: largest norm of an update.
        clip_quantile: with "dp", ``clip_norm`` follows this quantile of the updates' norms.
    """

    epsilon: Annotated[float, Meta(gt=0, le=1000)] = 10.0  # weak; smaller takes more devices
    delta: Annotated[float, Meta(gt=0, le=1e-3)] = 1e-6  # for up to a hundred thousand devices
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)] = 1.0  # about half of the updates of a warm start are longer
    clip_quantile: Annotated[float, Meta(gt=0, lt=1)] | None = None  # fixed: following takes a large goal


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.source]``: the version that a further task starts from or evaluates.

    Attributes:
        task: whose current version; an evaluation takes it anew each round.
        version: a fixed version instead.
    """

    task: Annotated[str, Meta(max_length=64)] = ""  # the file's task
    version: Annotated[int, Meta(ge=0, lt=2**53)] | None = None  # the current one


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``[task]``: what a task does, and how its rounds run.

    Attributes:
        name: under another name the file's task starts anew.
        privacy: none, dp (differential privacy), secure-sum (only sums are seen), or secure-dp (both).
        kind: train or evaluate.
        goal: reports that end a round; with buffered, the size of the buffer.
        selection_deadline_s: how long a round waits for phones.
        report_deadline_s: how long a phone may take to train and report.
        selection_window_s: shortest selection.
        minimum_separation: rounds until a phone may report again; with differential privacy, committed ones.
        retry_after_s: shortest wait of a phone that is sent away.
        downlink: form of new weights: f32, or topk-8 (delays small changes) for dense updates and secure sums.
        mode: synchronous, or buffered: ``goal`` reports make a version, whenever their phones began.
        concurrency: with buffered, most phones at work at a time.
        staleness: with buffered, factor of a report s versions after its base: polynomial:a for (1 + s)^-a, or
            constant.
        max_staleness: with buffered, largest s of a report that counts.
        target_top1: top-1 share on held-out examples that ends the task.
        no_progress_rounds: committed rounds without a better one that end the task.
        patience: committed rounds without a version that is announced, or if devices do not measure without one that
            is the best on held-out examples, after which the task pauses itself; 0 never.
    """

    name: Name = "keyboard"  # as in the demo
    kind: Work = Work.TRAIN  # train makes versions
    rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # endless: keyboards never stop changing
    goal: Count = 20  # a household has fewer, a fleet hundreds
    minimum: Count = MINIMUM  # fewest reports; as in ``[limits]``; more with secure-sum
    over_selection: Annotated[float, Meta(ge=1, le=10)] = 1.3  # seats per goal; 6 to 10 % drop out (Bonawitz et al.)
    selection_deadline_s: Annotated[float, Meta(ge=0.1, le=86400)] = 60.0  # people wait a minute
    report_deadline_s: Annotated[float, Meta(ge=1, le=30 * 86400)] = 600.0  # Android ends a session after 585 s
    selection_window_s: Seconds | None = None  # a 60th of the deadline
    minimum_examples: Annotated[int, Meta(ge=0, le=2**31)] = 1  # fewest messages on a device
    minimum_separation: Annotated[int, Meta(ge=1, le=2**31)] = 1  # a household has few; a fleet uses 10
    retry_after_s: Annotated[float, Meta(ge=0.1, le=86400)] | None = None  # a 15th of the selection deadline
    codec: CodecConfig = CodecConfig()
    plan: PlanConfig = PlanConfig()
    strategy: StrategyConfig = StrategyConfig()
    downlink: str = "f32"  # f32 loses nothing
    schedule: Schedule = Schedule()
    eligibility: Eligibility = Eligibility()
    mode: Mode = Mode.SYNCHRONOUS  # synchronous: each report is of the newest version
    concurrency: Count | None = None  # goal x over_selection
    staleness: Annotated[str, Meta(max_length=32)] = "polynomial:0.5"  # as FedBuff
    max_staleness: Annotated[int, Meta(ge=0, le=1000)] = 10  # such a report still weighs 0.3
    target_top1: Annotated[float, Meta(gt=0, le=1)] | None = None  # unknown beforehand
    no_progress_rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # never: progress may resume
    patience: Annotated[int, Meta(ge=0, le=2**31)] = 50  # then phones work for nothing; chance never lasts so long
    privacy: Privacy = Privacy.NONE  # a household is too few for the others
    dp: DpConfig = DpConfig()
    variant: Variant = Variant()
    source: SourceConfig = SourceConfig()

    def __post_init__(self) -> None:
        """Replace defaults that ``privacy`` cannot have: it needs no evaluations, and devices for one sum only."""
        if self.privacy is Privacy.NONE or self.kind is not Work.TRAIN:
            return
        if self.plan.evaluation_share == PlanConfig().evaluation_share:
            force_setattr(self, "plan", replace(self.plan, evaluation_share=0.0))
        if self.privacy.summed and self.minimum == MINIMUM:
            force_setattr(self, "minimum", max(MINIMUM, least_minimum(min(self.rules().cohort, MOST_MEMBERS))))

    def rules(self, *, trial: bool = False) -> RoundRules:
        """The rules of a round of this task; a trial is synchronous, and a single device is enough for it."""
        rules = rules_for(
            goal=self.goal,
            minimum=1 if trial else self.minimum,
            over_selection=self.over_selection,
            selection_deadline_s=self.selection_deadline_s,
            report_deadline_s=self.report_deadline_s,
            selection_window_s=self.selection_window_s,
            summed=self.privacy.summed and not trial,
        )
        if self.mode is Mode.SYNCHRONOUS or trial:
            return rules
        return replace(rules, concurrency=self.concurrency or rules.cohort, max_staleness=self.max_staleness)

    def stop_rule(self) -> StopRule:
        """When the task ends."""
        return StopRule(
            rounds=self.rounds,
            target_top1=self.target_top1,
            no_progress_rounds=self.no_progress_rounds,
            patience=self.patience,
        )

    @property
    def measures(self) -> bool:
        """Whether its devices measure versions, and each report can be read."""
        return self.plan.evaluation_share > 0 and not self.privacy.summed

    @property
    def tries(self) -> bool:
        """Whether a share of the devices may try its versions first; a trial reads each device's report."""
        return self.kind is Work.TRAIN and not self.privacy.summed

    @property
    def shortest_retry_s(self) -> float:
        """The shortest retry time that a device is told, in seconds."""
        derived_s = max(MIN_RETRY_S, SHORTEST_RETRY_SHARE * self.selection_deadline_s)
        return derived_s if self.retry_after_s is None else self.retry_after_s
