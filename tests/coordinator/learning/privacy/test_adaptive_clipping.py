"""The clip norm that follows a quantile: by hand, to its aim, and with the noise that is accounted for."""

import math

import numpy as np
import pytest

from nightjar.coordinator.learning.privacy.adaptive_clipping import count_deviation, next_private_norm
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.learning.privacy.tree_noise import noise_step


def terms(quantile, multiplier=0.0, devices=4, separation=1, key="ab" * 32):
    return NoiseTerms(
        clip_norm=2.0, devices=devices, multiplier=multiplier, separation=separation, key=key, quantile=quantile
    )


@pytest.mark.parametrize(
    ("within", "updates", "exponent"),
    [(3, 4, 0.0), (4, 4, -0.05), (1, 4, 0.1), (0, 0, 0.0), (2, 2, -0.025)],
    ids=["as wanted", "all", "few", "nobody came", "half of the goal came"],
)
def test_it_moves_by_the_formula_of_the_paper(within, updates, exponent):
    found = next_private_norm(terms(0.75), 0, 2.0, within, updates)
    assert found == pytest.approx(2.0 * math.exp(exponent), rel=1e-12)


def test_without_a_quantile_it_stays():
    assert next_private_norm(terms(None, multiplier=9.0), 0, 2.0, 0, 4) == 2.0


@pytest.mark.parametrize("quantile", [0.5, 0.8])
@pytest.mark.parametrize("first", [0.01, 100.0])
def test_it_finds_the_quantile_from_far_off_though_the_count_is_noised(quantile, first):
    rng, norm, kept = np.random.default_rng(3), first, []
    private = terms(quantile, multiplier=3.0, devices=1000, separation=50)
    for step in range(300):
        norms = np.exp(rng.standard_normal(1000))
        norm = next_private_norm(private, step, norm, int((norms <= norm).sum()), 1000)
        kept.append(norm)
    wanted = np.quantile(np.exp(np.random.default_rng(4).standard_normal(100_000)), quantile)
    assert np.median(kept[200:]) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("quantile", [0.5, 0.1])
def test_the_noise_in_the_count_has_the_deviation_that_is_accounted_for(quantile):
    drawn = []
    for number in range(4000):
        private = terms(quantile, multiplier=3.0, devices=1000, key=f"{number:064x}")
        moved = next_private_norm(private, 0, 1.0, 0, 0)
        drawn.append(-math.log(moved) / 0.2 * 1000)
    assert np.std(drawn) == pytest.approx(count_deviation(3.0, quantile), rel=0.04)
    assert np.std(drawn) == pytest.approx(5 * 3 * max(quantile, 1 - quantile), rel=0.04)
    assert abs(np.mean(drawn)) < 4 * np.std(drawn) / math.sqrt(4000)


def test_the_noise_in_the_count_is_not_that_in_the_sum():
    counted, summed = [], []
    for step in range(1000):
        counted.append(math.log(next_private_norm(terms(0.5, multiplier=1.0), step, 1.0, 0, 0)))
        summed.append(noise_step(bytes.fromhex("ab" * 32), step, 1, 1)[0])
    assert abs(np.corrcoef(counted, summed)[0, 1]) < 0.12


def test_the_same_step_has_the_same_noise_bit_for_bit():
    one, other = (next_private_norm(terms(0.5, multiplier=3.0, separation=8), 13, 0.7, 2, 4) for _ in range(2))
    assert one.hex() == other.hex()
