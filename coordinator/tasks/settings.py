"""The settings of a task, with the reason for each default, and checks for invalid combinations. Pure."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict, force_setattr, replace

from nightjar.coordinator.learning.downlink import F32, FORMS
from nightjar.coordinator.learning.privacy.distributed import MOST_MULTIPLIER
from nightjar.coordinator.learning.privacy.ledger import Privacy
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.learning.robust import aggregation_faults
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.learning.strategies import (
    ADAPTIVE,
    MEDIAN,
    Aggregation,
    RateSchedule,
    StrategyChoice,
    StrategyName,
    Weighting,
    strategies,
)
from nightjar.coordinator.rounds.admission import Eligibility, Variant
from nightjar.coordinator.rounds.rules import SHORTEST_RETRY_SHARE, RoundRules, rules_for
from nightjar.coordinator.tasks.dp import DpConfig, clipping_faults, noise_for
from nightjar.coordinator.tasks.schedule import Schedule
from nightjar.coordinator.tasks.task import StopRule
from nightjar.wire.codec.codecs import FIRST, usable
from nightjar.wire.errors import ConfigError
from nightjar.wire.limits import Limits, outside
from nightjar.wire.messages import CodecChoice, TrainingPlan, Work
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, least_minimum, threshold_for

Count = Annotated[int, Meta(ge=1, le=2**31)]
Seconds = Annotated[float, Meta(ge=0, le=30 * 86400)]
MINIMUM = 10
"""As in ``[limits]``."""
KEEP_SHARE = 0.5
"""A device that has to stop after at least this share of its steps reports its update; earlier, it drops out."""
MIN_RETRY_S = 0.1
"""Minimum retry time, even for a selection of one second: a device must not come back at once."""
OWN_CHOICE = ("topk", "sampled")
"""Beginnings of the names of the codecs in which each device chooses the coordinates that it sends."""
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

    @property
    def needed(self) -> str:
        """The codec's name if a device must name it to take part; empty if every device has it."""
        return "" if self.name in FIRST else self.name


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


def strategy_faults(strategy: StrategyConfig, plan: PlanConfig, codec: CodecConfig, cohort: int) -> list[str]:
    """Faults of a plan, a codec or a smallest cohort that does not suit the strategy."""
    own_choice = codec.density if codec.name.startswith(OWN_CHOICE) else None
    faults = aggregation_faults(strategy.aggregation, strategy.attackers, cohort, own_choice)
    if strategy.name == StrategyName.FEDPROX and not plan.proximal:
        faults.append("plan.proximal: expected more than 0 for the strategy fedprox, got 0")
    if strategy.name == StrategyName.FEDSGD and (plan.local_epochs > 1 or plan.proximal):
        faults.append("plan: expected local_epochs = 1 and proximal = 0 for the strategy fedsgd, which takes one step")
    return faults


def privacy_faults(strategy: StrategyConfig, plan: PlanConfig, rounds: int) -> list[str]:
    """Why differential privacy would not hold with these settings."""
    faults = []
    if not rounds:
        faults.append("rounds: an endless task spends privacy without end; give a number")
    if strategy.aggregation is not Aggregation.MEAN:
        faults.append(
            f"strategy.aggregation: one device can change {strategy.aggregation.value} by more than clip_norm, for "
            "which the noise is made; take mean"
        )
    if strategy.weighting is Weighting.EXAMPLES:
        faults.append("strategy.weighting: a device with many examples could exceed the noise; leave it out")
    if strategy.clip_quantile != MEDIAN:
        faults.append("strategy.clip_quantile: the clip norm is that of the noise; set dp.clip_quantile instead")
    if plan.evaluation_share:
        faults.append("plan.evaluation_share: what devices measure is published without noise; take 0")
    return faults


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
    downlink: str = F32  # f32 loses nothing
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


def beyond_limits(task: TaskSettings, limits: Limits) -> list[str]:
    """The settings of a task that ``[limits]`` of the configuration forbid."""
    epsilon = task.dp.epsilon if task.privacy.noised else None
    threshold = threshold_for(task.minimum) if task.privacy.summed else None
    return outside(limits, task.minimum, task.codec.choice(), task.plan.max_steps, epsilon, threshold)


def noise_terms(task: TaskSettings, key: str) -> NoiseTerms | None:
    """How the sums of a task are noised, with a secret key in hex; None if they are not."""
    if not task.privacy.noised:
        return None
    if task.privacy.summed:
        return noise_for(task.dp, task.rounds, task.minimum_separation, task.minimum, "", summed=True)
    return noise_for(task.dp, task.rounds, task.minimum_separation, task.goal, key, summed=False)


def promise(task: TaskSettings) -> tuple[object, ...] | None:
    """The settings that a promise of differential privacy rests on; None without one."""
    devices = task.minimum if task.privacy.summed else task.goal
    return (task.privacy, task.dp, task.rounds, devices, task.minimum_separation) if task.privacy.noised else None


def task_faults(task: TaskSettings, limits: Limits, *, measured: bool, enrolled: bool) -> list[str]:
    """Faults in the settings of a task: values that contradict each other or are not allowed.

    ``measured`` tells whether versions are measured on held-out text, and ``enrolled`` whether devices have keys that
    the coordinator certified.
    """
    faults = beyond_limits(task, limits)
    if task.minimum > task.goal:
        faults.append(f"minimum: expected at most goal ({task.goal}), got {task.minimum}")
    rules = task.rules()
    if rules.selection_window_s > rules.selection_deadline_s:
        faults.append(
            f"selection_window_s: expected at most selection_deadline_s ({rules.selection_deadline_s:g}), "
            f"got {rules.selection_window_s:g}"
        )
    if task.codec.name not in usable():
        faults.append(f"codec.name: expected one of {', '.join(usable())}, got {task.codec.name!r}")
    if task.strategy.name not in strategies():
        faults.append(f"strategy.name: expected one of {', '.join(strategies())}, got {task.strategy.name!r}")
    faults.extend(strategy_faults(task.strategy, task.plan, task.codec, task.minimum))
    if task.privacy.noised:
        faults.extend(privacy_faults(task.strategy, task.plan, task.rounds))
        if task.kind is not Work.TRAIN:
            faults.append("kind: what devices measure is published without noise; take train")
    faults.extend(clipping_faults(task.privacy, task.dp, noise_terms(task, "") if task.rounds else None, task.goal))
    if task.downlink not in FORMS:
        faults.append(f"downlink: expected one of {', '.join(FORMS)}, got {task.downlink!r}")
    watches = task.target_top1 is not None or task.no_progress_rounds > 0
    if watches and (task.kind is not Work.TRAIN or not measured):
        faults.append(
            "target_top1, no_progress_rounds: a share can end only a training task, and only where a held-out text "
            "(evaluation_text) measures it"
        )
    if task.kind is Work.EVALUATE and not task.plan.evaluation_share:
        faults.append("plan.evaluation_share: expected more than 0, because an evaluation tries nothing else")
    if task.privacy.summed:
        faults.extend(f"privacy: with {task.privacy.value}, {fault}" for fault in _sum_faults(task, enrolled=enrolled))
    if task.mode is Mode.BUFFERED:
        faults.extend(f"mode: with buffered, {fault}" for fault in _buffer_faults(task))
    return faults


def _buffer_faults(task: TaskSettings) -> list[str]:
    """What a task asks for that needs rounds with a common beginning and end."""
    faults = []
    if task.kind is not Work.TRAIN:
        faults.append("kind must be train, because an evaluation makes no versions")
    if task.privacy.summed:
        faults.append(f"privacy must not be {task.privacy.value}, because the devices of a sum start together")
    elif task.privacy.noised:
        faults.append("privacy must not be dp, because its noise counts on synchronous rounds")
    if task.schedule.pause_s:
        faults.append("schedule.pause_s must be 0, because devices are always at work")
    try:
        parse_staleness(task.staleness)
    except ConfigError as error:
        faults.append(f"staleness: {error}")
    return faults


def _sum_faults(task: TaskSettings, *, enrolled: bool) -> list[str]:
    """What a task asks for that needs more than the sum of the reports."""
    faults, cohort = [], task.rules().cohort
    if not enrolled:
        faults.append("transport must be tls, because devices sign with their enrolled keys")
    if task.kind is not Work.TRAIN or task.plan.evaluation_share:
        faults.append("kind must be train and plan.evaluation_share 0, because evaluations come from single devices")
    if task.codec != CodecConfig():
        faults.append("codec must be left out, because sums have a compressor of their own")
    if task.strategy.aggregation is not Aggregation.MEAN:
        faults.append("strategy.aggregation must be mean, because every other rule compares single reports")
    if task.strategy.weighting is not Weighting.CAPPED:
        faults.append("strategy.weighting must be capped, because devices weigh their own updates in a sum")
    if task.strategy.clip_quantile != MEDIAN:
        faults.append("strategy.clip_quantile must be left out, because the grid of a sum grows with the clip norm")
    if task.minimum < (least := least_minimum(min(cohort, MOST_MEMBERS))):
        faults.append(f"minimum must be at least {least} of {cohort} devices, or one round could have two sums")
    if cohort > MOST_MEMBERS:
        faults.append(f"goal and over_selection must select at most {MOST_MEMBERS} devices, not {cohort}")
    noise = noise_terms(task, "") if task.rounds else None
    if noise is not None and noise.multiplier > MOST_MULTIPLIER:
        faults.append(
            "dp.epsilon must be larger, or minimum_separation: a sum holds noise of at most "
            f"{MOST_MULTIPLIER:.0f} times the clip norm, not of {noise.multiplier:.0f} times"
        )
    return faults
