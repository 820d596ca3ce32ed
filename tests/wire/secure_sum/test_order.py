"""What a device gives to a round's sum, and what stands in the sum."""

import msgspec
import numpy as np
import pytest

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank, bases_of, group_sizes
from nightjar.wire.secure_sum.order import FURTHER_VALUES, SumOrder, contribution, read_sum, terms_of, values_of

LAYOUT = ParameterLayout((ParameterSpec("bias", (50,)), ParameterSpec("kernel", (8, 4))))
RANK = Rank(rows=8, right=2, left=2)
BASES = bases_of(np.zeros(LAYOUT.size, np.float32), LAYOUT, RANK, np.random.default_rng(0))
SPREAD = np.ones(len(group_sizes(LAYOUT, RANK)), np.float32)
ORDER = SumOrder(
    number=7,
    threshold=3,
    cohort=12,
    rank=RANK,
    grid=Grid(step=0.01, most=127),
    clip_norm=2.0,
    most_examples=100,
)
TERMS = terms_of(ORDER, LAYOUT, 9, bytes(32))


def summed(*given):
    rng = np.random.default_rng(0)
    total = sum(
        contribution(update, count, ORDER, LAYOUT, BASES, SPREAD, rng, rng).astype(np.uint64) for update, count in given
    )
    return read_sum((total % 2**TERMS.bits).astype(np.uint32), ORDER, LAYOUT, BASES, SPREAD)


def test_a_sum_gives_the_weighted_mean_and_how_many_were_within_the_clip_norm():
    rng = np.random.default_rng(1)
    updates = rng.uniform(-0.2, 0.2, (12, LAYOUT.size)).astype(np.float32)
    found = summed(*((update, 10 * number + 10) for number, update in enumerate(updates)))
    weights = np.minimum(np.arange(10, 130, 10), 100)
    assert found.within == 12
    assert np.abs(found.mean - np.average(updates, axis=0, weights=weights))[:50].max() < ORDER.grid.step


def test_an_update_is_clipped_to_the_norm_and_says_so():
    large = np.zeros(LAYOUT.size, np.float32)
    large[:50] = 10.0
    found = summed((large, 100), (large / 1000, 100))
    assert found.within == 1
    assert np.allclose(found.mean[:50], (2.0 / np.sqrt(50) + 0.01) / 2, atol=ORDER.grid.step)


def test_terms_that_contradict_each_other_are_the_senders_fault():
    with pytest.raises(RemoteProtocolError, match="below the minimum"):
        terms_of(ORDER, LAYOUT, 3, bytes(32))


NOISED = msgspec.structs.replace(ORDER, grid=Grid(step=0.002, most=1000), noise_variance=400)


def test_with_noise_the_sum_is_the_mean_of_equal_clipped_updates_and_their_noise():
    rng = np.random.default_rng(3)
    updates = rng.uniform(-0.2, 0.2, (12, LAYOUT.size)).astype(np.float32)
    updates[0] *= 1000
    bits = terms_of(NOISED, LAYOUT, 9, bytes(32)).bits
    given = [
        contribution(each, 10 * number + 1, NOISED, LAYOUT, BASES, SPREAD, rng, rng)
        for number, each in enumerate(updates)
    ]
    assert {each.size for each in given} == {values_of(NOISED, LAYOUT) + FURTHER_VALUES}
    total = (np.sum(given, axis=0, dtype=np.uint64) % 2**bits).astype(np.uint32)
    found = read_sum(total, NOISED, LAYOUT, BASES, SPREAD)
    off = found.mean[:50] - np.mean([u[:50] for u in updates[1:]] + [np.zeros(50)], axis=0)
    deviation = 0.002 * (400 / 12) ** 0.5
    assert np.abs(off).max() < 2.0 / 12 + 5 * deviation, "the long one moves the mean by its norm at most"
    assert found.spread is SPREAD


def test_with_noise_weight_and_bit_say_nothing():
    rng = np.random.default_rng(4)
    ends = [
        contribution(np.full(LAYOUT.size, value, np.float32), count, NOISED, LAYOUT, BASES, SPREAD, rng, rng)[-2:]
        for value, count in ((0.001, 1), (9.0, 1000))
    ]
    assert ends[0].tolist() == ends[1].tolist() == [NOISED.grid.most, 0]
