"""Each rule on a cohort computed by hand, and what some malicious devices make of it."""

import numpy as np
import pytest

from nightjar.coordinator.learning.fedavg import Contribution
from nightjar.coordinator.learning.robust import (
    BLOCK,
    NOISE_SHARE,
    aggregate_for,
    aggregation_faults,
    bulyan,
    foolsgold_weights,
    median,
    multi_krum,
    norms,
    robust_mean,
    trimmed_mean,
    with_noise,
)
from nightjar.coordinator.learning.strategies import Aggregation, StrategyChoice, StrategyName
from nightjar.wire.codec import Sparse
from nightjar.wire.identifiers import DeviceId

HONEST, MALICIOUS, SIZE = 17, 3, 500


def rows(*updates):
    return np.array(updates, np.float32)


def test_median_and_trimmed_mean_by_hand():
    updates = rows([1, 5, 0], [2, -1, 0], [3, 0, 0], [90, 4, 7])
    assert median(updates).tolist() == [2.5, 2.0, 0.0]
    assert trimmed_mean(updates, 1).tolist() == [2.5, 2.0, 0.0]
    assert trimmed_mean(updates, 0).tolist() == [24.0, 2.0, 1.75]


def test_a_coordinate_in_a_later_block_is_combined_like_one_in_the_first():
    updates = np.zeros((3, BLOCK + 2), np.float32)
    updates[:, [0, -1]] = rows([1, 1], [2, 2], [9, 9])
    assert median(updates)[[0, 1, -1]].tolist() == [2.0, 0.0, 2.0]


def test_krum_keeps_those_near_their_neighbours():
    # The distances of (3, 3) to its two nearest are 8 and 13; those of the others are 1 and 2 at most, or 1 and 1.
    assert multi_krum(rows([0, 0], [1, 0], [0, 1], [1, 1], [3, 3]), 1).tolist() == [True, True, True, True, False]


def test_bulyan_drops_the_hidden_coordinate_that_krum_lets_through():
    mean, taken = bulyan(rows([0, 0], [1, 0], [2, 0], [3, 0], [2, 2], [4, 0], [60, 0]), 1)
    assert taken.tolist() == [True, True, True, True, True, False, False]
    assert mean.tolist() == [pytest.approx(5 / 3), 0.0], "of 0 1 2 3 2 the nearest to 2 are 2, 2 and the first 1"


def test_foolsgold_gives_twins_no_weight_and_pardons_their_neighbour():
    angle = np.deg2rad(60)
    updates = rows([0, 1], [0, 1], [np.sin(angle), np.cos(angle)], [-1, 0])
    weights = foolsgold_weights(updates)
    assert weights[:2].tolist() == [0.0, 0.0]
    assert weights[2] == 1.0, "its cosine with the twins is 0.5, pardoned to 0.25"
    assert weights[3] == 1.0


def test_foolsgold_cannot_tell_when_all_are_alike():
    assert foolsgold_weights(rows([1, 2], [1, 2], [2, 4])).tolist() == [1.0, 1.0, 1.0]
    assert foolsgold_weights(rows([0, 0])).tolist() == [1.0]


def test_clipped_residuals_add_up_to_nothing_at_the_robust_mean():
    updates = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    weights = np.arange(1.0, 10.0)
    centre = robust_mean(updates, weights)
    radius = 0.1 * sorted(norms(updates))[4]
    apart = norms(updates, centre)[:, None]
    residuals = weights[:, None] * np.minimum(1, radius / apart) * (updates - centre)
    assert np.abs(residuals.sum(axis=0)).max() < 1e-3 * radius * weights.sum()


def test_one_wild_device_hardly_moves_the_robust_mean():
    calm = np.random.default_rng(2).normal(1.0, 0.1, (8, 3)).astype(np.float32)
    moved = robust_mean(np.vstack([calm, rows([1e6, -1e6, 1e6])]), np.ones(9))
    assert np.linalg.norm(moved - calm.mean(axis=0)) < 0.2


def test_a_cohort_that_mostly_learned_nothing_moves_nothing():
    assert robust_mean(rows([0, 0], [0, 0], [3, 4]), np.ones(3)).tolist() == [0.0, 0.0]


def test_noise_has_the_norm_that_is_said():
    noise = with_noise(np.zeros(10_000), 3.0, np.random.default_rng(0))
    assert np.linalg.norm(noise) == pytest.approx(3.0 * NOISE_SHARE, rel=0.05)


def aggregate(rule, updates):
    choice = StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0, aggregation=rule, attackers=0.15)
    cohort = [
        Contribution(DeviceId(f"d{i:02d}"), 10.0, Sparse(SIZE, np.arange(SIZE), update), 0.5)
        for i, update in enumerate(updates)
    ]
    accumulator = aggregate_for(choice, np.random.default_rng(0))(SIZE)
    for each in cohort:
        accumulator.add(each)
    return accumulator.combined()


@pytest.mark.parametrize("rule", Aggregation)
def test_a_few_who_flip_the_sign_do_not_turn_the_result_and_repeats_are_equal(rule):
    generator = np.random.default_rng(3)
    common = generator.normal(size=SIZE)
    honest = (common + generator.normal(size=(HONEST, SIZE))).astype(np.float32)
    flipped = np.tile(-common.astype(np.float32), (MALICIOUS, 1))
    found = aggregate(rule, [*honest, *flipped])
    assert np.dot(found.mean, common) > 0.3 * np.dot(common, common), "half of it, as all are scaled by a half"
    assert found.mean.tobytes() == aggregate(rule, [*honest, *flipped]).mean.tobytes()
    if rule in {Aggregation.MULTI_KRUM, Aggregation.FOOLSGOLD}:
        assert set(found.left_out) >= {"d17", "d18", "d19"}


OWN_CHOICE = 0.01


@pytest.mark.parametrize(
    ("rule", "attackers", "cohort", "density", "why"),
    [
        (Aggregation.MEDIAN, 0.1, 20, OWN_CHOICE, "zero almost everywhere"),
        (Aggregation.TRIMMED_MEAN, 0.1, 20, OWN_CHOICE, "zero almost everywhere"),
        (Aggregation.TRIMMED_MEAN, 0.1, 20, 0.2, ""),
        (Aggregation.BULYAN, 0.1, 20, OWN_CHOICE, "zero almost everywhere"),
        (Aggregation.MEDIAN, 0.1, 20, None, ""),
        (Aggregation.MULTI_KRUM, 0.1, 20, OWN_CHOICE, ""),
        (Aggregation.MULTI_KRUM, 0.1, 4, OWN_CHOICE, "at least 5 reports"),
        (Aggregation.BULYAN, 0.2, 10, None, "at least 11 reports"),
        (Aggregation.MEAN, 0.4, 1, OWN_CHOICE, ""),
    ],
)
def test_what_cannot_work_is_said(rule, attackers, cohort, density, why):
    faults = aggregation_faults(rule, attackers, cohort, density)
    assert (len(faults) == 1 and why in faults[0]) if why else faults == []
