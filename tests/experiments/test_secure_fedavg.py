import numpy as np
import pytest
from phe import generate_paillier_keypair

from nightjar.experiments.data_sets import digits, in_turn
from nightjar.experiments.engine import descend, weighted_mean
from nightjar.experiments.secure_fedavg import (
    GRID,
    NETWORK,
    PLAN,
    encrypted_sum,
    masked_sum,
    moved,
    numbers_of,
    packed,
    unpacked,
)

DEVICES = in_turn(digits(1).train, 6)
WEIGHTS = NETWORK.start(np.random.default_rng(1))
BITS = GRID.bits(len(DEVICES))


def test_both_sums_are_exactly_that_of_the_updates():
    words = numbers_of(WEIGHTS, DEVICES, BITS, [1])
    expected = sum(word.astype(np.int64) for word in words) % 2**BITS
    encrypted, masked = encrypted_sum(words, BITS, 512), masked_sum(words, BITS, np.random.default_rng(1))
    assert (encrypted.total == expected).all()
    assert (masked.total == expected).all()
    assert encrypted.up_bytes == encrypted.down_bytes == 128 * -(-words[0].size // (510 // (BITS + 3)))


def test_the_mean_of_the_sum_is_that_of_the_updates():
    words = numbers_of(WEIGHTS, DEVICES, BITS, [1])
    total = np.array(sum(word.astype(np.int64) for word in words) % 2**BITS, np.uint32)
    alone = [descend(NETWORK, WEIGHTS, each, PLAN, np.random.default_rng([1, n])) for n, each in enumerate(DEVICES)]
    mean = weighted_mean(alone, [len(each) for each in DEVICES])
    assert moved(WEIGHTS, total, BITS) == pytest.approx(mean, abs=GRID.step)


def test_sums_of_the_largest_numbers_do_not_reach_their_neighbours():
    public, _ = generate_paillier_keypair(n_length=256)
    most = np.full(40, 2**9 - 1, np.uint32)
    total = [3 * number for number in packed(most, public, 11)]
    assert max(total) < public.n // 2
    assert unpacked(total, public, 11, 40) == [3 * (2**9 - 1)] * 40
