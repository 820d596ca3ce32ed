"""Noise that devices add to their own words, so that a secure sum is private also from the coordinator.

Each device clips its update to a norm, rounds it to the grid and adds discrete Gaussian noise. A masked report tells
nothing, and the sum of n reports has about the noise of one discrete Gaussian of n times the variance; accounted for in
:mod:`nightjar.coordinator.learning.privacy.distributed`.

Rounding lengthens a vector. It is repeated until the norm is at most :func:`rounded_norm`, which is then the
sensitivity. In place of the random rotation of the paper, the modulus has room for any update.

Sampling is exact, in whole numbers, for a source whose integers are uniform: floating point would leave gaps in the
tails that give values away. Its time depends on what is drawn.

Sources: Kairouz, Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
Aggregation", algorithm 1 and section 4; Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential
Privacy", algorithms 1 to 3.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.masks import Words

Integers = npt.NDArray[np.int64]
LEAST_VARIANCE = 16
"""From here on, a sum of discrete Gaussians is one but for less than 1e-50."""
MOST_VARIANCE = 2**22
"""Larger ones would overflow 64 bits."""
DEVIATIONS = 8
"""Of the noise in a sum, that the modulus has room for: more come once in 10**14 values."""
TAIL = math.exp(-0.5)
"""beta: a rounding is repeated with at most this probability."""


class UniformIntegers(Protocol):
    """A source of uniform integers, such as a generator of NumPy."""

    def integers(self, low: int, high: int, size: int, /) -> Integers:
        """Integers from ``low`` to below ``high``: (size,) int64."""
        ...


def discrete_gaussian(variance: int, count: int, rng: UniformIntegers) -> Integers:
    """``count`` independent draws from N_Z(0, variance): probabilities proportional to ``exp(-x^2 / (2 variance))``.

    >>> discrete_gaussian(4, 3, np.random.default_rng(1)).dtype
    dtype('int64')

    Raises:
        LocalProtocolError: the variance is out of range.
    """
    if not 1 <= variance <= MOST_VARIANCE:
        msg = f"expected a variance from 1 to {MOST_VARIANCE}, got {variance}"
        raise LocalProtocolError(msg)
    scale = math.isqrt(variance) + 1
    drawn = np.zeros(count, np.int64)
    open_ = np.arange(count)
    while open_.size:
        candidates = _discrete_laplace(scale, open_.size, rng)
        distance = np.abs(np.abs(candidates) * scale - variance)
        # exp(-distance^2 / (2 variance scale^2))
        accepted = _bernoulli_exp(distance * distance, 2 * variance * scale * scale, rng)
        drawn[open_[accepted]] = candidates[accepted]
        open_ = open_[~accepted]
    return drawn


def private_words(
    update: Vector,
    clip_norm: float,
    grid: Grid,
    variance: int,
    bits: int,
    rng: np.random.Generator,
    noise: UniformIntegers,
) -> Words:
    """What a device gives to a secure sum: clipped, rounded, with noise; all devices count the same.

    The update (k,) float32 is as it is summed; the words (k,) uint32 are below 2**bits. The variance is in steps of the
    grid; noise is not clipped to it (:func:`noised_bits`). ``rng`` rounds, on which privacy does not rest; ``noise`` is
    secret.

    Raises:
        LocalProtocolError: a value is not finite, or the variance is out of range.
    """
    wide = update.astype(np.float64)
    if not np.isfinite(wide).all():
        msg = "expected finite values"
        raise LocalProtocolError(msg)
    norm = float(np.linalg.norm(wide))
    steps = np.clip(wide * (min(1.0, clip_norm / norm) if norm else 1.0) / grid.step, -grid.most, grid.most)
    low, most = np.floor(steps), rounded_norm(clip_norm / grid.step, steps.size)
    while True:
        levels = low + (rng.random(steps.size) < steps - low)
        if np.linalg.norm(levels) <= most:
            break
    noisy = levels.astype(np.int64) + discrete_gaussian(variance, steps.size, noise)
    return (noisy & (1 << bits) - 1).astype(np.uint32)


def noised_bits(grid: Grid, cohort: int, variance: int) -> int:
    """Bits of a number that holds the sum of a cohort, with its sign and its noise.

    >>> noised_bits(Grid(step=0.01, most=300), 26, 30951)
    15
    """
    return (2 * (grid.most * cohort + math.ceil(DEVIATIONS * math.sqrt(cohort * variance)))).bit_length()


def rounded_norm(norm: float, size: int) -> float:
    """Largest norm of k values after rounding, in steps of the grid: the sensitivity of the sum (equation 19).

    >>> round(rounded_norm(1000.0, 10_000), 1)
    1001.8
    """
    longer = norm * norm + size / 4 + math.sqrt(2 * math.log(1 / TAIL)) * (norm + math.sqrt(size) / 2)
    return min(norm + math.sqrt(size), math.sqrt(longer))


def _discrete_laplace(scale: int, count: int, rng: UniformIntegers) -> Integers:
    """Draws with probabilities proportional to ``exp(-|x| / scale)``."""
    drawn = np.zeros(count, np.int64)
    open_ = np.arange(count)
    while open_.size:
        rest = rng.integers(0, scale, open_.size)
        kept = _bernoulli_exp(rest, scale, rng)
        whole = np.zeros(open_.size, np.int64)
        going = kept.nonzero()[0]
        while going.size:
            going = going[_bernoulli_exp_of_at_most_1(np.ones(going.size, np.int64), 1, rng)]
            whole[going] += 1
        magnitude = rest + scale * whole
        negative = rng.integers(0, 2, open_.size) == 1
        kept &= ~(negative & (magnitude == 0))  # else 0 would be drawn twice as often
        drawn[open_[kept]] = np.where(negative, -magnitude, magnitude)[kept]
        open_ = open_[~kept]
    return drawn


def _bernoulli_exp(numerators: Integers, denominator: int, rng: UniformIntegers) -> npt.NDArray[np.bool_]:
    """True with probability ``exp(-numerator / denominator)``."""
    outcome = _bernoulli_exp_of_at_most_1(numerators % denominator, denominator, rng)
    left = numerators // denominator
    going = (outcome & (left > 0)).nonzero()[0]
    while going.size:
        held = _bernoulli_exp_of_at_most_1(np.ones(going.size, np.int64), 1, rng)
        outcome[going[~held]] = False
        left[going] -= 1
        going = going[held & (left[going] > 0)]
    return outcome


def _bernoulli_exp_of_at_most_1(numerators: Integers, denominator: int, rng: UniformIntegers) -> npt.NDArray[np.bool_]:
    """The same for exponents of at most 1: the parity of the first failure in a series of ever rarer draws."""
    odd = np.zeros(numerators.size, np.bool_)
    going, place = np.arange(numerators.size), 1
    while going.size:
        failed = rng.integers(0, denominator * place, going.size) >= numerators[going]
        odd[going[failed]] = place % 2 == 1
        going, place = going[~failed], place + 1
    return odd
