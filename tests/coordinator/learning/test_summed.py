"""From the sums of a few rounds to weights and bases."""

import numpy as np
import pytest

from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName, optimizer_for
from nightjar.coordinator.learning.summed import average_of_sum, first_bases, sum_order, unmasked_sum
from nightjar.coordinator.rounds.secure_sum import Unmask
from nightjar.models.configurations import configuration, lstm_layout
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum import masks
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.order import contribution, values_of
from tests.secure_sums import PRIMITIVES, terms

LAYOUT = lstm_layout(60, 12, 20)
FED_AVG = optimizer_for(StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0))


def test_rounds_of_low_rank_come_to_where_the_devices_want_to_be():
    rng = np.random.default_rng(0)
    goal, weights = np.zeros(LAYOUT.size, np.float32), np.zeros(LAYOUT.size, np.float32)
    for spec, start, stop in LAYOUT.spans():
        if len(spec.shape) == 2:
            goal[start:stop] = np.outer(*(rng.standard_normal(size) for size in spec.shape)).ravel() / 10
    state, average, bases, clip_norm = FED_AVG.init(LAYOUT.size), np.zeros_like(goal), first_bases(LAYOUT, rng), 1.0
    for number in range(40):
        order = sum_order(number, 16, 26, LAYOUT, clip_norm)
        asked = from_bytes(bases, LAYOUT, order.rank)
        words = [contribution(goal - weights, 100, order, LAYOUT, *asked, rng, rng) for _ in range(20)]
        total = np.sum(words, axis=0, dtype=np.uint32) % np.uint32(2 ** order.grid.bits(26))
        found = average_of_sum(weights, state, average, total, 20, order, LAYOUT, bases, FED_AVG, rng)
        weights, clip_norm = found.averaged.weights, found.averaged.clip_norm
        average, bases = found.average, found.bases
    assert np.linalg.norm(weights - goal) < 0.1 * np.linalg.norm(goal)


@pytest.mark.parametrize("cohort", [3, 26, 100, 1000])
def test_every_cohort_has_ten_levels_and_a_hundred_devices_eleven_bits(cohort):
    order = sum_order(1, cohort, cohort, LAYOUT, 1.0)
    assert order.grid.most >= 10
    assert order.grid.bits(cohort) <= (11 if cohort <= 100 else 15)


def test_a_report_of_the_large_model_fits_60_kilobytes():
    layout = configuration("gboard").layout(10_000)
    assert 11 * values_of(sum_order(1, 60, 100, layout, 1.0), layout) / 8 < 60_000


@pytest.mark.parametrize("bits", [3, 16, 24])
def test_self_masks_and_the_pair_masks_of_dropped_devices_are_removed(bits):
    agreed = terms(bits=bits)
    selves, dropped, other = (b"a" * 16, b"b" * 16), b"d" * 16, PRIMITIVES.derive(b"other", b"", 32)
    public = PRIMITIVES.public_key(other)
    pair = masks.pair_mask_seed(masks.mask_key(dropped, PRIMITIVES), public, agreed, PRIMITIVES)
    updates = [np.arange(20, dtype=np.uint32) % 2**bits, np.full(20, 2**bits - 1, np.uint32)]
    seeds = [[(1, masks.self_mask_seed(seed, PRIMITIVES))] for seed in selves]
    seeds[1].append((masks.sign_of(5, 2), pair))  # member 5, with member 2 that has dropped out
    masked = [
        masks.pack(update + masks.total_mask(each, agreed, PRIMITIVES), agreed)
        for update, each in zip(updates, seeds, strict=True)
    ]
    plan = Unmask(terms=agreed, members=(0, 5), self_seeds=selves, dropped={2: (dropped, {5: public})})
    total = unmasked_sum(plan, iter(masked), PRIMITIVES)
    np.testing.assert_array_equal(total, (updates[0] + updates[1]) % 2**bits)
    with pytest.raises(RemoteProtocolError):
        unmasked_sum(plan, [masked[0], masked[1][:-1]], PRIMITIVES)
