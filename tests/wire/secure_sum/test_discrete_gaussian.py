import math

import numpy as np
import pytest

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.secure_sum.discrete_gaussian import (
    MOST_VARIANCE,
    discrete_gaussian,
    noised_bits,
    private_words,
    rounded_norm,
)
from nightjar.wire.secure_sum.grid import Grid

MANY = 60_000


def expected(variance, values):
    every = np.arange(-12 * math.isqrt(variance) - 12, 12 * math.isqrt(variance) + 13)
    total = np.exp(-(every**2) / (2 * variance)).sum()
    return np.exp(-(values**2) / (2 * variance)) / total


@pytest.mark.parametrize("variance", [1, 2, 7, 30])
def test_each_number_comes_as_often_as_the_discrete_gaussian_says(variance):
    drawn = discrete_gaussian(variance, MANY, np.random.default_rng(variance))
    values = np.arange(-3 * math.isqrt(variance), 3 * math.isqrt(variance) + 1)
    counted = np.array([(drawn == value).sum() for value in values])
    probabilities = expected(variance, values)
    # Pearson's statistic: mean `values.size`, deviation sqrt(2 values.size)
    statistic = ((counted - MANY * probabilities) ** 2 / (MANY * probabilities)).sum()
    assert statistic < values.size + 4 * math.sqrt(2 * values.size)


@pytest.mark.parametrize("variance", [1, 10, 1000, MOST_VARIANCE])
def test_mean_and_variance_are_right_up_to_the_largest(variance):
    drawn = discrete_gaussian(variance, MANY, np.random.default_rng(3))
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / MANY)
    exact = variance if variance > 1 else 1.0
    assert drawn.var() == pytest.approx(exact, rel=0.03)


def test_a_variance_that_would_overflow_is_refused():
    for variance in (0, MOST_VARIANCE + 1):
        with pytest.raises(LocalProtocolError, match="variance"):
            discrete_gaussian(variance, 1, np.random.default_rng(0))


GRID = Grid(step=0.01, most=2**14)


def signed(words, bits):
    values = words.astype(np.int64)
    return np.where(values >= 1 << bits - 1, values - (1 << bits), values)


def test_the_sum_of_private_words_is_the_sum_of_the_updates_with_the_noise_of_all_devices():
    rng, devices, bits = np.random.default_rng(5), 16, 24
    updates = rng.normal(0, 0.01, (devices, 5000)).astype(np.float32)
    words = sum(private_words(each, 10.0, GRID, 25, bits, rng, rng).astype(np.int64) for each in updates)
    off = signed((words % (1 << bits)).astype(np.uint32), bits) - updates.sum(axis=0) / GRID.step
    assert abs(off.mean()) < 5 * math.sqrt(devices * 25 / off.size)
    # noise 25 of each device, and at most a quarter of rounding
    assert devices * 25 * 0.9 < off.var() < devices * 25.25 * 1.1


def test_a_long_update_moves_the_sum_by_no_more_than_the_sensitivity():
    rng = np.random.default_rng(6)
    update = np.full(2000, 100.0, np.float32)
    with_noise = [signed(private_words(update, 1.0, GRID, 1, 24, rng, rng), 24) for _ in range(5)]
    norm = np.linalg.norm(np.mean(with_noise, axis=0))
    assert norm < rounded_norm(1.0 / GRID.step, 2000) + math.sqrt(2000 / 5) * 1.2


def test_the_norm_after_rounding_is_bounded_and_hardly_longer():
    assert rounded_norm(0.0, 100) <= 10
    assert 1000 < rounded_norm(1000.0, 185_728) < 1024


def test_what_is_not_finite_is_refused():
    with pytest.raises(LocalProtocolError, match="finite"):
        private_words(np.array([np.inf], np.float32), 1.0, GRID, 1, 16, *2 * [np.random.default_rng(0)])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("variance", "cohort"), [(16, 26), (30_000, 26), (1000, 1000)])
def test_the_modulus_holds_the_largest_sum_with_its_noise(sign, variance, cohort):
    grid, rng = Grid(step=0.01, most=100), np.random.default_rng(7)
    bits = noised_bits(grid, cohort, variance)
    update = np.zeros(50, np.float32)
    update[0] = sign  # all of every device's norm in one value
    words = sum(private_words(update, 1.0, grid, variance, bits, rng, rng).astype(np.int64) for _ in range(cohort))
    first = signed((words % (1 << bits)).astype(np.uint32), bits)[0]
    assert abs(first - sign * 100 * cohort) < 6 * math.sqrt(cohort * variance)
