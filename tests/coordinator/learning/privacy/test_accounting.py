"""Epsilon is what dp-accounting says, and the calibrated noise reaches it."""

import math

import pytest

from nightjar.coordinator.learning.privacy.accounting import calibrated, epsilon_after, ledger_of, participations
from nightjar.coordinator.learning.privacy.ledger import Clipping, explain
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from tests.lazily import Lazy

dp_accounting, rdp = Lazy("dp_accounting"), Lazy("dp_accounting.rdp")


def said(*events, delta=1e-6):
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


def tree(multiplier, steps):
    return dp_accounting.SingleEpochTreeAggregationDpEvent(multiplier, steps)


@pytest.mark.parametrize("multiplier", [0.8, 3.0, 20.0])
def test_epsilon_is_that_of_dp_accounting_for_one_tree_after_the_other(multiplier):
    assert epsilon_after(multiplier, 250, 100, 1e-6) == said(
        tree(multiplier, 100), tree(multiplier, 100), tree(multiplier, 50)
    )


def test_a_device_that_takes_part_once_is_in_one_tree():
    assert epsilon_after(5.0, 100, 100, 1e-6) == said(tree(5.0, 100))
    assert epsilon_after(5.0, 99, 1000, 1e-6) == said(tree(5.0, 99))


def test_without_separation_it_is_that_of_as_many_gaussian_mechanisms():
    gaussian = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(5.0), 40)
    assert epsilon_after(5.0, 40, 1, 1e-6) == pytest.approx(said(gaussian))


@pytest.mark.parametrize(("epsilon", "rounds", "separation"), [(1.0, 400, 100), (10.0, 400, 100), (8.9, 500, 30)])
def test_the_calibrated_noise_reaches_epsilon_and_not_more(epsilon, rounds, separation):
    multiplier = calibrated(epsilon, 1e-6, rounds, separation)
    assert epsilon - 1e-3 < epsilon_after(multiplier, rounds, separation, 1e-6) <= epsilon


def test_sum_and_count_are_composed_by_dp_accounting():
    assert epsilon_after(3.0, 150, 100, 1e-6, counted=True) == said(
        tree(3.0, 100), tree(3.0, 50), tree(15.0, 100), tree(15.0, 50)
    )
    multiplier = calibrated(8.9, 1e-6, 500, 100, counted=True)
    assert 8.899 < epsilon_after(multiplier, 500, 100, 1e-6, counted=True) <= 8.9
    assert multiplier == pytest.approx(calibrated(8.9, 1e-6, 500, 100) * math.sqrt(1 + 1 / 25), rel=1e-3)


def test_epsilon_grows_with_the_rounds_and_is_zero_before_the_first():
    spent = [epsilon_after(3.0, rounds, 100, 1e-6) for rounds in (0, 1, 100, 101, 400)]
    assert spent[0] == 0
    assert spent == sorted(spent)


def test_the_ledger_says_what_is_promised_spent_and_assumed():
    multiplier = calibrated(8.9, 1e-6, 500, 100)
    terms = NoiseTerms(clip_norm=1.0, devices=20, multiplier=multiplier, separation=100, key="00")
    ledger = ledger_of(terms, 1e-6, 500, 100)
    lines = explain(ledger)
    assert lines[0].startswith("after 500 rounds: epsilon 8.9, delta 1e-06, for each device; after the 100 so far")
    assert "at most 5 times" in lines[1]
    assert ledger.participations == participations(500, 100) == 5
    assert ledger.spent < ledger.epsilon / 2
    assert (ledger.noise, ledger.influence, ledger.clipping) == (multiplier / 20, 0.05, None)


def test_the_ledger_says_what_a_clip_norm_that_follows_the_updates_costs():
    multiplier = calibrated(8.9, 1e-6, 500, 100, counted=True)
    terms = NoiseTerms(clip_norm=1.0, devices=1000, multiplier=multiplier, separation=100, key="00", quantile=0.5)
    ledger = ledger_of(terms, 1e-6, 500, 100)
    assert ledger.epsilon == pytest.approx(8.9, abs=1e-3)
    assert ledger.spent == epsilon_after(multiplier, 100, 100, 1e-6, counted=True)
    assert ledger.clipping == Clipping(
        quantile=0.5, noise=2.5 * multiplier, epsilon=epsilon_after(5 * multiplier, 500, 100, 1e-6)
    )
    assert "the clip norm follows the norm that 50% of the updates are within" in explain(ledger)[3]
