import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.secure_sum.grid import Grid, mean_of, to_words

GRID = Grid(step=0.01, most=127)


def rounds(updates, weights, grid=GRID, seed=0):
    """The mean as the coordinator has it."""
    bits, rng = grid.bits(len(updates)), np.random.default_rng(seed)
    words = [to_words(update, weight, grid, bits, rng) for update, weight in zip(updates, weights, strict=True)]
    assert all((each >> bits == 0).all() for each in words)
    return mean_of(np.sum(words, axis=0, dtype=np.uint32) % np.uint32(2**bits), grid, bits)


def test_the_weighted_mean_comes_out_within_a_step():
    rng = np.random.default_rng(1)
    updates = rng.normal(0, 0.3, (100, 500)).astype(np.float32).clip(-1.2, 1.2)
    weights = rng.uniform(0.2, 1, 100)
    expected = (updates * weights[:, None]).sum(axis=0) / weights.sum()
    got = rounds(updates, weights)
    assert np.abs(got - expected).max() < GRID.step
    assert np.linalg.norm(got - expected) / np.linalg.norm(expected) < 0.05


def test_rounding_is_right_on_average():
    update = np.array([0.003, -0.0075, 0.999], np.float32)
    mean = np.mean([rounds([update], [1.0], seed=seed) for seed in range(2000)], axis=0)
    np.testing.assert_allclose(mean, update, atol=5e-4)


@given(st.integers(1, 300), st.integers(1, 2**15), st.sampled_from([-1, 1]))
def test_a_whole_cohort_at_the_limit_does_not_wrap_around(cohort, most, sign):
    grid = Grid(step=1.0, most=most)
    update = np.array([sign * 1e30, -sign * most], np.float32)
    np.testing.assert_array_equal(rounds([update] * cohort, [1.0] * cohort, grid), [sign * most, -sign * most])


@pytest.mark.parametrize(("value", "weight"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, 0.0), (1.0, 1.5), (1.0, np.nan)])
def test_what_is_no_update_is_our_own_defect(value, weight):
    with pytest.raises(LocalProtocolError):
        to_words(np.array([value], np.float32), weight, GRID, 15, np.random.default_rng(0))


def test_a_sum_without_weight_is_a_mean_of_nothing():
    assert mean_of(np.zeros(3, np.uint32), GRID, 15).tolist() == [0.0, 0.0]
