"""Both grids and both ways to round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nightjar.wire.codec.quantize import (
    OCTAVE,
    Logarithmic,
    Uniform,
    dequantize,
    logarithmic_grid,
    most_for,
    norm,
    quantize,
    reaching_grid,
    uniform_grid,
)
from tests.wire.strategies import vectors

LARGEST = float(np.finfo(np.float32).max)
some_values = st.integers(0, 30).flatmap(vectors)
some_bits = st.integers(2, 8)


def rng(seed=0):
    return np.random.default_rng(seed)


def points_around(grid, magnitude):
    """The greatest point that is at most a magnitude, and the least that is at least it."""
    points = grid.magnitudes()
    below, above = points[points <= magnitude], points[points >= magnitude]
    return below[-1], above[0] if above.size else below[-1]


@given(some_values, some_bits)
def test_a_uniform_grid_reaches_from_zero_to_the_largest_magnitude(values, bits):
    grid = uniform_grid(values, bits)
    assert grid.magnitudes().size == most_for(bits) + 1
    assert grid.magnitudes()[0] == 0
    assert np.float32(grid.magnitudes()[-1]) == np.abs(values).max(initial=0)


@given(some_values, some_bits)
def test_a_logarithmic_grid_that_reaches_has_its_last_point_at_or_above_the_largest_magnitude(values, bits):
    grid = logarithmic_grid(values, bits, reach=True)
    assert grid.magnitudes()[-1] >= np.abs(values).max(initial=0)


@given(st.floats(2.0**-149, 2.0**100, width=32), st.floats(0, 1), some_bits)
def test_a_grid_from_one_point_to_another_has_the_smallest_ratio_that_reaches(low, share, bits):
    most = most_for(bits)
    high = low * 2 ** (share * min(most - 1, 20))
    grid = reaching_grid(low, high, bits)
    points = grid.magnitudes()
    assert points[1] == low
    assert points[-1] >= high
    if grid.ratio > 1:
        assert Logarithmic(low, grid.ratio - 1, most).magnitudes()[-1] < high
    if most > 1:
        assert quantize(np.array([low], np.float32), grid, rng()).tolist() == [1]


@given(some_values, some_bits, st.booleans())
def test_the_points_of_a_logarithmic_grid_ascend_by_at_most_an_octave(values, bits, reach):
    grid = logarithmic_grid(values, bits, reach=reach)
    points = grid.magnitudes()
    assert 0 <= grid.ratio <= OCTAVE
    assert grid.least == float(np.float32(grid.least))
    assert points[0] == 0
    assert (np.diff(points) >= 0).all()
    assert (points[2:] <= 2 * points[1:-1] * (1 + 1e-12)).all()
    assert points[-1] <= LARGEST


@given(some_values, some_bits, st.booleans())
@example(values=np.array([1.0, 0.5], np.float32), bits=3, uniform=True)  # half way, but for the last bits
def test_the_nearest_point_is_nearest(values, bits, uniform):
    grid = uniform_grid(values, bits) if uniform else logarithmic_grid(values, bits)
    levels = quantize(values, grid)
    points = grid.magnitudes()
    magnitudes = np.abs(values).astype(np.float64)
    error = np.abs(points[np.abs(levels)] - magnitudes)
    rounding = 1e-14 * np.maximum(points, magnitudes[:, np.newaxis])
    assert (error[:, np.newaxis] <= np.abs(points - magnitudes[:, np.newaxis]) + rounding).all()


@given(some_values, some_bits, st.booleans(), st.integers(0, 5))
def test_stochastic_rounding_takes_one_of_the_two_points_around(values, bits, uniform, seed):
    grid = uniform_grid(values, bits) if uniform else logarithmic_grid(values, bits, reach=True)
    levels = quantize(values, grid, rng(seed))
    for value, level in zip(values.tolist(), levels.tolist(), strict=True):
        assert grid.magnitudes()[abs(level)] in points_around(grid, abs(value))


@given(some_values, some_bits, st.booleans(), st.booleans())
def test_levels_keep_signs_and_bounds(values, bits, uniform, stochastic):
    grid = uniform_grid(values, bits) if uniform else logarithmic_grid(values, bits, reach=stochastic)
    levels = quantize(values, grid, rng() if stochastic else None)
    assert levels.dtype == np.int64
    assert np.abs(levels).max(initial=0) <= most_for(bits)
    assert (levels * np.sign(values) >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("uniform", [True, False])
def test_stochastic_rounding_is_unbiased(bits, uniform):
    values = np.array([1.0, 0.7391, 0.1234, -0.3, 0.0001, -0.01], np.float32)
    grid = uniform_grid(values, bits) if uniform else logarithmic_grid(values, bits, reach=True)
    draws, generator = 20_000, rng()
    mean = np.mean([dequantize(quantize(values, grid, generator), grid) for _ in range(draws)], axis=0)
    widths = np.array([np.subtract(*points_around(grid, abs(float(v)))[::-1]) for v in values])
    # Of a variable with two outcomes the deviation is at most half their distance.
    assert (np.abs(mean - values) <= 5 * widths / 2 / math.sqrt(draws) + 1e-7).all()


def test_unbiased_holds_for_the_whole_probability_not_only_the_sample():
    """A level is taken exactly where the drawn number is below the share of the way to it."""

    class Drawn:
        def __init__(self, number):
            self.number = number

        def random(self, size):
            return np.full(size, self.number)

    grid, value = Uniform(1.0, 7), np.array([0.5], np.float32)
    share = 0.5 * 7 - 3
    assert quantize(value, grid, Drawn(share - 1e-9)).tolist() == [4]
    assert quantize(value, grid, Drawn(share + 1e-9)).tolist() == [3]


def test_the_largest_value_is_exact_on_a_uniform_grid():
    values = np.array([0.3, -7.25], np.float32)
    grid = uniform_grid(values, 8)
    assert dequantize(quantize(values, grid, rng()), grid)[1] == -7.25


def test_four_bits_on_a_logarithmic_grid_err_less_than_half_a_step():
    values = rng(1).uniform(0.01, 1, 1000).astype(np.float32)
    grid = logarithmic_grid(values, 4)
    ratio = dequantize(quantize(values, grid), grid) / values
    step = 2 ** (grid.ratio / OCTAVE)
    # Half a step in proportion at the ends, half of the distance between two points.
    assert (ratio <= step**0.5 * 1.001).all()
    assert (ratio >= 2 / (1 + step) * 0.999).all()


@pytest.mark.parametrize("value", [1e-45, 1.1754942e-38, 1.0, LARGEST])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_one_value_from_the_smallest_to_the_largest_is_exact(value, bits):
    values = np.array([-value], np.float32)
    for grid in (
        uniform_grid(values, bits),
        logarithmic_grid(values, bits),
        logarithmic_grid(values, bits, reach=True),
    ):
        assert dequantize(quantize(values, grid), grid).tolist() == values.tolist()


@pytest.mark.parametrize("values", [[], [0.0, -0.0]])
def test_nothing_but_zeros_gives_level_zero(values):
    values = np.array(values, np.float32)
    for grid in (uniform_grid(values, 4), logarithmic_grid(values, 4)):
        assert quantize(values, grid).tolist() == [0] * values.size
        assert quantize(values, grid, rng()).tolist() == [0] * values.size


def test_same_generator_same_levels():
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    a, b = (quantize(values, uniform_grid(values, 8), rng(3)) for _ in range(2))
    assert (a == b).all()


def test_the_grid_and_the_levels_do_not_change_the_values():
    values = vectors_of_a_report()
    before = values.copy()
    for grid in (uniform_grid(values, 8), logarithmic_grid(values, 4)):
        quantize(values, grid, rng())
    assert values.tobytes() == before.tobytes()


def vectors_of_a_report():
    return rng(2).standard_normal(50).astype(np.float32)


grids = st.one_of(
    st.builds(Uniform, st.floats(0, LARGEST, width=32), st.sampled_from([7, 127])),
    st.builds(Logarithmic, st.floats(0, LARGEST, width=32), st.integers(0, OCTAVE), st.sampled_from([7, 127])),
)


@given(grids, st.lists(st.integers(-7, 7), max_size=60))
def test_the_norm_is_the_exact_sum_of_squares_rounded_once(grid, levels):
    levels = np.array(levels, np.int64)
    squares = sum((Fraction(float(value)) ** 2 for value in dequantize(levels, grid)), Fraction(0))
    assert norm(levels, grid) == math.sqrt(float(squares))


def test_the_norm_is_exact_where_rounding_each_magnitude_would_not_be():
    grid, levels = Uniform(float(np.float32(0.3)), 7), np.repeat(np.arange(8), 8932)
    squares = sum((Fraction(float(value)) ** 2 for value in dequantize(levels, grid)), Fraction(0))
    each = [float(np.float32(point)) for point in grid.magnitudes()]
    assert norm(levels, grid) == math.sqrt(float(squares))
    assert math.sqrt(math.fsum(8932 * point**2 for point in each)) != math.sqrt(float(squares))  # the test can fail


def test_the_grid_does_not_depend_on_the_order_of_the_values():
    values = rng(4).standard_normal(333).astype(np.float32)
    for bits in (2, 4, 8):
        assert logarithmic_grid(values, bits) == logarithmic_grid(rng(5).permutation(values), bits)
