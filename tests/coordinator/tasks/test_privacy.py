"""Which settings contradict differential privacy, and what a promise rests on."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.learning.strategies import Aggregation, Weighting
from nightjar.coordinator.tasks.settings import DpConfig, PlanConfig, Privacy, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import beyond_limits, noise_terms, promise, task_faults
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Work

PRIVATE = TaskSettings(privacy=Privacy.DP, rounds=500, minimum_separation=100, plan=PlanConfig(evaluation_share=0.0))


def test_a_private_task_with_an_end_and_a_mean_is_possible():
    assert task_faults(PRIVATE, Limits(), measured=True, enrolled=True) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rounds": 0}, "rounds: an endless task spends privacy without end"),
        ({"strategy": StrategyConfig(aggregation=Aggregation.FED_PLUS)}, "one device can change fed-plus by more"),
        ({"strategy": StrategyConfig(aggregation=Aggregation.NOISY_MEAN)}, "one device can change noisy-mean by more"),
        ({"strategy": StrategyConfig(weighting=Weighting.EXAMPLES)}, "strategy.weighting: a device with many examples"),
        ({"strategy": StrategyConfig(clip_quantile=1.0)}, "set dp.clip_quantile instead"),
        ({"plan": PlanConfig(evaluation_share=0.2)}, "what devices measure is published without noise"),
        ({"kind": Work.EVALUATE, "plan": PlanConfig(evaluation_share=0.1)}, "kind: what devices measure"),
    ],
)
def test_what_contradicts_it_is_refused_with_the_reason(changes, why):
    assert any(
        why in fault for fault in task_faults(replace(PRIVATE, **changes), Limits(), measured=True, enrolled=True)
    )
    without = replace(PRIVATE, privacy=Privacy.NONE, **changes)
    assert task_faults(without, Limits(), measured=True, enrolled=True) == []


FOLLOWING = DpConfig(clip_quantile=0.5)


def faults(**changes):
    return task_faults(replace(PRIVATE, **changes), Limits(), measured=True, enrolled=True)


def test_a_clip_norm_follows_the_updates_where_the_count_of_a_large_goal_says_something():
    assert faults(goal=1000, dp=FOLLOWING) == []
    assert any("expected a goal of at least 172" in fault for fault in faults(goal=20, dp=FOLLOWING))
    terms = noise_terms(replace(PRIVATE, goal=1000, dp=FOLLOWING), "ab")
    assert terms.quantile == 0.5
    assert 1.01 < terms.multiplier / noise_terms(PRIVATE, "ab").multiplier < 1.03


@pytest.mark.parametrize(
    ("privacy", "why"),
    [
        (Privacy.NONE, "without noise the clip norm follows the median anyway"),
        (Privacy.SECURE_SUM, "without noise the clip norm follows the median anyway"),
        (Privacy.SECURE_DP, "with secure-dp the count of updates within the clip norm would need noise from devices"),
    ],
)
def test_a_clip_norm_that_follows_is_refused_where_it_cannot_or_does_so_anyway(privacy, why):
    assert any(why in fault for fault in faults(privacy=privacy, goal=26, minimum=26, dp=FOLLOWING))


def test_the_noise_is_calibrated_to_the_settings():
    terms = noise_terms(PRIVATE, "ab")
    assert (terms.clip_norm, terms.devices, terms.separation, terms.key) == (1.0, 20, 100, "ab")
    stricter = noise_terms(replace(PRIVATE, dp=DpConfig(epsilon=1.0)), "ab")
    assert stricter.multiplier > 5 * terms.multiplier
    assert noise_terms(TaskSettings(), "ab") is None


def test_the_promise_changes_with_what_it_rests_on_only():
    assert promise(PRIVATE) == promise(replace(PRIVATE, minimum=12, over_selection=2.0))
    for changes in ({"rounds": 501}, {"goal": 19}, {"minimum_separation": 99}, {"dp": DpConfig(delta=1e-5)}):
        assert promise(PRIVATE) != promise(replace(PRIVATE, **changes))
    assert promise(TaskSettings()) is None


def test_the_limit_of_the_coordinator_excludes_weaker_promises_and_none():
    limits = Limits(epsilon=8.0)
    assert beyond_limits(PRIVATE, limits) == ["privacy: expected an epsilon of at most 8, got 10"]
    assert beyond_limits(TaskSettings(), limits) == [
        "privacy: expected an epsilon of at most 8, got no differential privacy"
    ]
    assert beyond_limits(replace(PRIVATE, dp=DpConfig(epsilon=8.0)), limits) == []
