"""The compressors of the study of sums: linear, of the size they say, and better than nothing."""

import numpy as np
import pytest

from nightjar.experiments.linear.coordinates import Choice, Coordinates
from nightjar.experiments.linear.dense import Whole
from nightjar.experiments.linear.low_rank import LowRank
from nightjar.experiments.linear.rotation import Rotated, hadamard
from nightjar.experiments.linear.sketch import CountSketch
from nightjar.models.configurations import lstm_layout
from nightjar.wire.secure_sum.low_rank import Rank

LAYOUT = lstm_layout(40, 6, 10)
COMPRESSORS = {
    "low-rank": LowRank(Rank(rows=30, right=2, left=2)),
    "rotated": Rotated(0.5),
    "sketch": CountSketch(columns=60, applied=40),
    "dense": Whole(),
    **{choice.value: Coordinates(0.3, choice) for choice in Choice},
}


def drawn(seed):
    return np.random.default_rng(seed).standard_normal(LAYOUT.size).astype(np.float32)


@pytest.fixture(params=COMPRESSORS)
def compressor(request):
    return COMPRESSORS[request.param]


def played(compressor, updates):
    """The state after these means, and the round that follows it."""
    state = compressor.begin(LAYOUT)
    for number, update in enumerate(updates):
        found = compressor.round(state, LAYOUT, np.random.default_rng(number))
        values = found.encode(update)
        _, state = compressor.after(state, found.decode(values), values)
    return state, compressor.round(state, LAYOUT, np.random.default_rng(len(updates)))


def test_encoding_is_linear_and_of_the_size_it_says(compressor):
    _, found = played(compressor, [drawn(1), drawn(2)])
    a, b = drawn(3), drawn(4)
    assert found.encode(a).size == sum(found.sizes)
    np.testing.assert_allclose(found.encode(a + 2 * b), found.encode(a) + 2 * found.encode(b), atol=1e-3)


def test_all_devices_have_the_same_compressor_in_a_round(compressor):
    (_, one), (_, other) = (played(compressor, [drawn(1)]) for _ in range(2))
    np.testing.assert_array_equal(one.encode(drawn(2)), other.encode(drawn(2)))


def test_what_is_applied_points_the_way_of_the_update(compressor):
    update = drawn(1) * (np.random.default_rng(5).random(LAYOUT.size) < 0.1)
    state, found = played(compressor, [update, update])
    values = found.encode(update)
    applied, _ = compressor.after(state, found.decode(values), values)
    assert applied @ update > 0.1 * np.linalg.norm(applied) * np.linalg.norm(update)


def test_the_rotation_keeps_lengths_and_is_its_own_inverse():
    vector = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    assert np.linalg.norm(hadamard(vector)) == pytest.approx(np.linalg.norm(vector), rel=1e-5)
    np.testing.assert_allclose(hadamard(hadamard(vector)), vector, atol=1e-5)
