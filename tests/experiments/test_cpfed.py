"""CPFed's theorem: the survey's test vectors, and what breaks it."""

from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from nightjar.experiments.cpfed import (
    CpfedSetting,
    epsilon,
    mask,
    refusals,
    rho_of_own_noise,
    rho_of_paper,
    to_values,
    to_words,
    train,
)


def setting(rounds, steps, gradient_norm, devices, batch, sigma, delta):
    return CpfedSetting(rounds, steps, gradient_norm, devices, batch, sigma, delta)


@pytest.mark.parametrize(
    ("at", "rho", "found"),
    [
        (setting(100, 4, 1, 100, 16, 1, 1e-5), 0.03125, 1.230881),
        (setting(500, 4, 1, 1000, 16, 1, 1e-5), 0.015625, 0.863893),
        (setting(500, 5, 1, 10_000, 32, 0.1, 1e-6), 0.048828, 1.691491),
        (setting(1000, 10, 1, 100_000, 32, 0.05, 1e-6), 0.078125, 2.155948),
    ],
)
def test_equation_5_11_has_the_values_of_the_survey(at, rho, found):
    assert rho_of_paper(at) == pytest.approx(rho, abs=5e-7)
    assert epsilon(rho_of_paper(at), at.delta) == pytest.approx(found, abs=5e-7)


USUAL = setting(100, 4, 1, 100, 16, 1, 1e-5)


def test_own_noise_alone_has_the_value_of_the_survey_and_costs_as_much_as_all_rounds_of_the_paper():
    assert rho_of_own_noise(USUAL, joined=1) == 0.03125
    assert epsilon(0.03125, 1e-5) == pytest.approx(1.2309, abs=5e-5)
    assert rho_of_own_noise(USUAL, joined=10) == 10 * rho_of_paper(USUAL), "r = 10 devices in T r / n = 10 rounds"


def test_half_of_the_devices_give_half_of_the_noise():
    assert rho_of_paper(USUAL, reporting=5) == 2 * rho_of_paper(USUAL)


def test_lemma_3_is_no_better_than_dp_accounting():
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(0.03125))
    assert 0.8 < accountant.get_epsilon(1e-5) / epsilon(0.03125, 1e-5) <= 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"own_choice_topk": True}, "masks cancel only where all devices send"),
        ({"own_choice_topk": True}, "count with r = 1"),
        ({"weighted_by_examples": True}, "take 1 / r"),
        ({"clips_each_example": False}, "clip each one"),
        ({"adaptive_on_device": True}, "the theorem is about SGD"),
    ],
)
def test_what_breaks_the_theorem_is_refused_with_the_reason(change, why):
    assert refusals(USUAL, dropouts=False) == []
    assert any(why in reason for reason in refusals(replace(USUAL, **change), dropouts=False))
    with pytest.raises(ValueError, match=why):
        train(replace(USUAL, **change), 0.1, 7)
    assert "masks do not cancel" in refusals(USUAL, dropouts=True)[0]


def test_masks_cancel_in_the_sum_of_all_hide_one_alone_and_differ_by_round():
    cohort = [0, 1, 2, 3, 4]
    seeds = {(i, j): bytes([i, j]) * 16 for i in cohort for j in cohort if i != j}
    masks = [mask(device, cohort, seeds, 3, 4000) for device in cohort]
    assert not np.sum(masks, axis=0, dtype=np.uint32).any()
    assert np.sum(masks[:-1], axis=0, dtype=np.uint32).any(), "one missing device leaves random numbers"
    counted, _ = np.histogram(masks[0], 16, (0, 2**32))
    assert ((counted - 250) ** 2 / 250).sum() < 15 + 4 * 30**0.5
    assert (masks[0] != mask(0, cohort, seeds, 4, 4000)).mean() > 0.99


def test_fixed_point_keeps_sums_of_negative_numbers():
    values = np.array([-1.5, 0.25, 3.0])
    assert to_values(to_words(values) + to_words(-2 * values)).tolist() == (-values).tolist()


def test_it_learns_with_a_little_noise():
    at = CpfedSetting(rounds=40, steps=4, gradient_norm=1.0, devices=20, batch=16, sigma=0.1, delta=1e-5, cohort=5)
    assert train(at, rate=0.2, seed=7) > 0.9
