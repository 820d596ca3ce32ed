"""What is wrong with the settings of a task, and the noise that follows from them. Pure.

Every file and every request is checked here: values that contradict each other, and what ``[limits]`` forbid.
"""

from __future__ import annotations

from nightjar.coordinator.learning.downlink import FORMS
from nightjar.coordinator.learning.privacy.accounting import calibrated
from nightjar.coordinator.learning.privacy.adaptive_clipping import fewest_reports
from nightjar.coordinator.learning.privacy.distributed import MOST_MULTIPLIER
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.learning.robust import aggregation_faults
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.learning.strategies import MEDIAN, Aggregation, StrategyName, Weighting, strategies
from nightjar.coordinator.tasks.settings import (
    CodecConfig,
    DpConfig,
    Mode,
    PlanConfig,
    Privacy,
    StrategyConfig,
    TaskSettings,
)
from nightjar.wire.codec.codecs import usable
from nightjar.wire.errors import ConfigError
from nightjar.wire.limits import Limits, outside
from nightjar.wire.messages import Work
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, honest_devices, least_minimum, threshold_for

OWN_CHOICE = ("topk", "sampled")
"""Beginnings of the names of the codecs in which each device chooses the coordinates that it sends."""


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


def noise_for(dp: DpConfig, rounds: int, separation: int, devices: int, key: str, *, summed: bool) -> NoiseTerms:
    """The noise with which all the rounds together stay within the epsilon of ``dp``.

    A device is at most once in ``separation`` committed rounds in a row. With ``summed``, devices add the noise inside
    a secure sum: then ``devices``, the reports of a round, are the fewest, and the key, a secret in hex, is empty.
    """
    counted = dp.clip_quantile is not None
    return NoiseTerms(
        clip_norm=dp.clip_norm,
        devices=devices,
        multiplier=calibrated(dp.epsilon, dp.delta, rounds, separation, counted=counted, summed=summed),
        separation=separation,
        key=key,
        honest=honest_devices(devices, threshold_for(devices)) if summed else 0,
        quantile=None if summed else dp.clip_quantile,
    )


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
    noise = noise_terms(task, "") if task.rounds else None
    faults.extend(clipping_faults(task.privacy, task.dp, noise, task.goal))
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
        faults.extend(
            f"privacy: with {task.privacy.value}, {fault}" for fault in _sum_faults(task, noise, enrolled=enrolled)
        )
    if task.mode is Mode.BUFFERED:
        faults.extend(f"mode: with buffered, {fault}" for fault in _buffer_faults(task))
    return faults


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


def clipping_faults(privacy: Privacy, dp: DpConfig, noise: NoiseTerms | None, goal: int) -> list[str]:
    """Why a clip norm cannot follow a quantile."""
    if dp.clip_quantile is None:
        return []
    match privacy:
        case Privacy.SECURE_DP:
            why = (
                "with secure-dp the count of updates within the clip norm would need noise from devices, and a check "
                "of it by each; leave it out"
            )
        case Privacy.DP:
            least = 1 if noise is None else fewest_reports(noise.multiplier, dp.clip_quantile)
            if goal >= least:
                return []
            why = (
                f"expected a goal of at least {least} for the noise in the count of updates within the clip norm, got "
                f"{goal}; leave it out, or take a larger goal, dp.epsilon or minimum_separation"
            )
        case Privacy.NONE | Privacy.SECURE_SUM:
            why = "without noise the clip norm follows the median anyway; leave it out, or take privacy dp"
    return [f"dp.clip_quantile: {why}"]


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


def _sum_faults(task: TaskSettings, noise: NoiseTerms | None, *, enrolled: bool) -> list[str]:
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
    if noise is not None and noise.multiplier > MOST_MULTIPLIER:
        faults.append(
            "dp.epsilon must be larger, or minimum_separation: a sum holds noise of at most "
            f"{MOST_MULTIPLIER:.0f} times the clip norm, not of {noise.multiplier:.0f} times"
        )
    return faults
