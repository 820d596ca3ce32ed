from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.versions.announcement import (
    MARGIN_KEYSTROKES,
    KeyboardOutcome,
    is_measured,
    saves_less,
    verdict,
)


def measured(*points: float, over: int = 7) -> Tally:
    """What devices found of a version: so many points more keystrokes saved than with another one."""
    return Tally(saved={3000: len(points)}, gain_over={over: histogram(points)}) if points else Tally()


def histogram(figures: Iterable[float]) -> dict[int, int]:
    """Of percents, in hundredths."""
    return dict(Counter(round(100 * each) for each in figures))


@pytest.mark.parametrize(
    ("points", "outcome"),
    [
        ((), KeyboardOutcome.UNMEASURED),
        ((-9.0,), KeyboardOutcome.UNMEASURED),
        ((0.0, 0.0), KeyboardOutcome.BETTER),
        ((-1.0, 1.5), KeyboardOutcome.BETTER),
        ((-0.1, -0.1), KeyboardOutcome.UNDECIDED),
        ((-MARGIN_KEYSTROKES, -MARGIN_KEYSTROKES), KeyboardOutcome.UNDECIDED),
        ((-0.6, -0.6), KeyboardOutcome.WORSE),
        ((-0.1, -1.9), KeyboardOutcome.UNDECIDED),  # 1 point, with a standard error of 0.9
        ((-0.8, -1.2, -1.0, -1.0), KeyboardOutcome.WORSE),
    ],
)
def test_a_loss_must_be_large_and_certain_and_a_gain_need_not(points, outcome):
    assert verdict(measured(*points), 8, 7, 2).outcome is outcome


def test_the_reason_has_both_figures_and_how_certain_they_are():
    assert verdict(measured(-1.0, -2.0), 8, 7, 2).reason == (
        "2 devices save 30.0 % of their keystrokes with version 8, 1.5 points fewer than with version 7 "
        "(standard error 0.5)"
    )
    assert verdict(measured(1.0), 8, 7, 2).reason == "1 of 2 devices compared version 8 with version 7"


def test_only_differences_from_the_announced_version_count():
    assert verdict(measured(-9.0, -9.0, over=6), 8, 7, 2).outcome is KeyboardOutcome.UNMEASURED


@pytest.mark.parametrize("minimum", [0, 1, 2])
def test_a_single_device_never_decides(minimum):
    assert verdict(measured(-9.0), 8, 7, minimum).outcome is KeyboardOutcome.UNMEASURED
    assert verdict(measured(-9.0, -9.0), 8, 7, minimum).outcome is KeyboardOutcome.WORSE
    assert not is_measured(measured(-9.0), minimum)
    assert is_measured(measured(-9.0, -9.0), minimum)


def test_as_many_devices_as_the_task_needs_must_have_measured():
    assert verdict(measured(1.0, 1.0, 1.0), 8, 7, 4).outcome is KeyboardOutcome.UNMEASURED
    assert verdict(measured(1.0, 1.0, 1.0, 1.0), 8, 7, 4).outcome is KeyboardOutcome.BETTER


@given(st.lists(st.integers(-100, 100), max_size=30), st.integers(0, 10))
def test_none_is_announced_that_was_measured_worse(points, minimum):
    found = verdict(measured(*points), 8, 7, minimum)
    cut = len(points) // 10
    kept = sorted(points)[cut : len(points) - cut]
    if found.outcome is KeyboardOutcome.BETTER:
        assert sum(kept) >= 0
    if found.outcome is KeyboardOutcome.WORSE:
        assert sum(kept) / len(kept) < -MARGIN_KEYSTROKES


@pytest.mark.parametrize("devices", [20, 50, 100, 1000])
@pytest.mark.parametrize("lie", [-100.0, -10.0, -3.0])
def test_a_tenth_of_liars_neither_holds_a_good_version_back_nor_lets_a_bad_one_out(devices, lie):
    generator = np.random.default_rng(devices)
    for _ in range(50):
        honest = generator.normal(2.0, 1.5, devices - devices // 10)
        good = verdict(measured(*honest, *[lie] * (devices // 10)), 8, 7, 10)
        bad = verdict(measured(*-honest, *[-lie] * (devices // 10)), 8, 7, 10)
        better = [each.outcome is KeyboardOutcome.BETTER for each in (good, bad)]
        assert better == [True, False], (good.reason, bad.reason)


@pytest.mark.parametrize("devices", [20, 100, 1000])
def test_a_tenth_of_liars_takes_back_hardly_more_versions_that_change_nothing_than_chance_does(devices):
    generator = np.random.default_rng(devices)
    taken_back = 0
    for _ in range(100):
        points = [*generator.normal(0.0, 1.5, devices - devices // 10), *[-50.0] * (devices // 10)]
        taken_back += verdict(measured(*points), 8, 7, 10).outcome is KeyboardOutcome.WORSE
    assert taken_back < 10


def test_gains_that_liars_hide_add_up_until_they_are_seen():
    """Each version is compared with the announced one, so what a tenth can hide is a bounded number of points."""
    generator = np.random.default_rng(1)
    noise = generator.normal(0.0, 1.5, 90)
    outcomes = [verdict(measured(*(noise + 0.1 * rounds), *[-50.0] * 10), 8, 7, 10).outcome for rounds in range(10)]
    assert outcomes[0] is KeyboardOutcome.UNDECIDED
    assert outcomes[-1] is KeyboardOutcome.BETTER


def test_a_slow_decline_adds_up_because_each_version_is_compared_with_the_announced_one():
    """A loss of 0.2 points a round: every one is small, and the third is rolled back."""
    outcomes = [verdict(measured(*[-0.2 * rounds] * 10), 8, 7, 10).outcome for rounds in (1, 2, 3)]
    assert outcomes == [KeyboardOutcome.UNDECIDED, KeyboardOutcome.UNDECIDED, KeyboardOutcome.WORSE]


@given(st.lists(st.integers(0, 100), max_size=9), st.lists(st.integers(0, 100), max_size=9))
def test_a_canary_never_fails_by_the_figure_of_one_device_nor_if_it_saves_as_much(ours, theirs):
    found = saves_less(Tally(saved=histogram(ours)), Tally(saved=histogram(theirs)))
    if min(len(ours), len(theirs)) < 2 or sum(ours) / len(ours) >= sum(theirs) / len(theirs):
        assert not found
