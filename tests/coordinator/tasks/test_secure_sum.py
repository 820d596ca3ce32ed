"""What a task with secure sums may ask for."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.learning.strategies import Aggregation, Weighting
from nightjar.coordinator.tasks.settings import CodecConfig, DpConfig, PlanConfig, Privacy, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import noise_terms, promise, task_faults
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Work

SUMMED = TaskSettings(privacy=Privacy.SECURE_SUM)


def faults(task, *, enrolled=True):
    return task_faults(task, Limits(), measured=False, enrolled=enrolled)


def test_a_task_with_secure_sums_can_be_made():
    assert faults(SUMMED) == []
    assert (SUMMED.goal, SUMMED.minimum, SUMMED.plan.evaluation_share) == (20, 16, 0.0)
    assert SUMMED.rules().summed
    assert not SUMMED.rules(trial=True).summed
    assert not TaskSettings().rules().summed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"codec": CodecConfig(name="topk-8")}, "codec must be left out"),
        ({"strategy": StrategyConfig(aggregation=Aggregation.MULTI_KRUM)}, "compares single reports"),
        ({"strategy": StrategyConfig(weighting=Weighting.EXAMPLES)}, "devices weigh their own updates"),
        ({"strategy": StrategyConfig(clip_quantile=0.9)}, "strategy.clip_quantile must be left out"),
        ({"plan": PlanConfig(evaluation_share=0.2)}, "evaluations come from single devices"),
        ({"kind": Work.EVALUATE, "plan": PlanConfig(evaluation_share=0.1)}, "kind must be train"),
        ({"minimum": 15}, "minimum must be at least 16 of 26 devices"),
        ({"goal": 900, "minimum": 800}, "at most 1000 devices, not 1170"),
        ({"goal": 2**31, "minimum": 10}, "at most 1000 devices"),
    ],
)
def test_what_needs_more_than_the_sum_is_refused_with_the_reason(changes, reason):
    found = faults(replace(SUMMED, **changes))
    assert any(reason in fault for fault in found), found
    assert all(fault.startswith("privacy: with secure-sum, ") for fault in found if reason in fault)


def test_devices_without_enrolled_keys_cannot_be_summed():
    assert faults(SUMMED, enrolled=False) == [
        "privacy: with secure-sum, transport must be tls, because devices sign with their enrolled keys"
    ]


NOISED = TaskSettings(privacy=Privacy.SECURE_DP, rounds=500, minimum_separation=100)


def test_sums_with_differential_privacy_can_be_made_and_count_on_the_noise_of_the_fewest_honest_devices():
    assert faults(NOISED) == []
    noise = noise_terms(NOISED, "ab")
    assert (NOISED.minimum, noise.devices, noise.honest, noise.key) == (16, 16, 12, "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rounds": 0}, "rounds: an endless task spends privacy without end"),
        ({"strategy": StrategyConfig(aggregation=Aggregation.MEDIAN)}, "compares single reports"),
        ({"plan": PlanConfig(evaluation_share=0.2)}, "what devices measure is published without noise"),
        ({"codec": CodecConfig(name="dense-f32")}, "codec must be left out"),
        ({"dp": DpConfig(epsilon=0.1)}, "dp.epsilon must be larger"),
    ],
)
def test_what_contradicts_sums_or_their_noise_is_refused_with_the_reason(changes, reason):
    assert any(reason in fault for fault in faults(replace(NOISED, **changes)))


def test_the_promise_rests_on_the_minimum():
    assert promise(NOISED) == promise(replace(NOISED, goal=25))
    for changes in ({"minimum": 17}, {"privacy": Privacy.DP}):
        assert promise(NOISED) != promise(replace(NOISED, **changes))
