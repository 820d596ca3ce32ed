"""Integers from the operating system's generator are uniform."""

import numpy as np
import pytest

from nightjar.host.system_integers import SystemIntegers
from nightjar.wire.secure_sum.discrete_gaussian import discrete_gaussian


@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 3), (-5, 2), (0, 2**62 - 1), (0, 3 * 2**60)])
def test_they_are_uniform(low, high):
    drawn = SystemIntegers().integers(low, high, 60_000)
    assert drawn.dtype == np.int64
    assert (drawn.min() >= low, drawn.max() < high) == (True, True)
    parts = min(3, high - low)
    shares = np.bincount(((drawn - low) // -(-(high - low) // parts)).astype(np.int64), minlength=parts) / drawn.size
    sizes = np.diff([min(i * -(-(high - low) // parts), high - low) for i in range(parts + 1)]) / (high - low)
    assert np.abs(shares - sizes).max() < 6 * (0.25 / drawn.size) ** 0.5


def test_noise_from_them_has_the_right_variance_and_never_comes_again():
    first, second = (discrete_gaussian(1000, 20_000, SystemIntegers()) for _ in range(2))
    assert first.var() == pytest.approx(1000, rel=0.06)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
