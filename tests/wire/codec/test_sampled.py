"""The sampled codec: what it draws, that its mean is the update, and that what is read is what was drawn."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightjar.models.configurations import configuration
from nightjar.wire.codec import codec_for
from nightjar.wire.codec.quantize import reaching_grid
from nightjar.wire.codec.sampled import BITS, sample
from nightjar.wire.codec.sparsify import count_for
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

LARGEST = float(np.finfo(np.float32).max)
LEAST = float(np.float32(1e-45))
TINY = configuration("tiny").layout(2_000)

sizes = st.integers(0, 40)
entries = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-38, -1e-45, 1e30]), st.floats(-100, 100, width=32))
updates = sizes.flatmap(lambda size: st.lists(entries, min_size=size, max_size=size)).map(
    lambda values: np.array(values, np.float32)
)
cases = updates.flatmap(lambda update: st.tuples(st.just(update), st.integers(0, update.size), st.integers(0, 9)))


def rng(seed=5):
    return np.random.default_rng(seed)


def heavy_tailed(size, seed=0):
    return (rng(seed).standard_normal(size) ** 3).astype(np.float32)


def flat(size):
    return ParameterLayout((ParameterSpec("w", (size,)),))


def codec_of(density):
    return codec_for(CodecChoice(name="sampled-4", density=density))


@given(cases)
@example((np.zeros(0, np.float32), 0, 0))
@example((np.array([3.0], np.float32), 1, 0))
def test_at_most_k_entries_are_drawn_and_none_of_them_is_a_zero(case):
    update, k, seed = case
    drawn, threshold = sample(update, k, rng(seed))
    assert drawn.indices.size <= k
    assert (np.diff(drawn.indices) > 0).all()
    assert (update[drawn.indices] != 0).all()
    assert (np.sign(drawn.values) == np.sign(update[drawn.indices])).all()
    assert (np.abs(drawn.values) >= threshold).all()
    assert threshold == float(np.float32(threshold))


@given(cases)
def test_an_entry_from_the_threshold_on_is_sure_and_is_sent_as_it_is(case):
    update, k, seed = case
    drawn, threshold = sample(update, k, rng(seed))
    sure = np.flatnonzero((np.abs(update) >= threshold) & (update != 0)) if k else np.zeros(0)
    assert set(sure) <= set(drawn.indices)
    sent = dict(zip(drawn.indices.tolist(), drawn.values.tolist(), strict=True))
    assert all(sent[i] == update[i] for i in sure.tolist())
    assert all(abs(sent[i]) == threshold for i in sent.keys() - set(sure.tolist()))


@given(cases)
def test_the_grid_begins_at_the_threshold_and_reaches_every_value(case):
    update, k, seed = case
    drawn, threshold = sample(update, k, rng(seed))
    largest = float(np.abs(drawn.values).max(initial=0))
    points = reaching_grid(threshold, largest, BITS).magnitudes()
    assert points[1] == threshold
    assert points[-1] >= largest


class Offset:
    """A generator whose one draw is given: the offset u of systematic sampling."""

    def __init__(self, offset):
        self.offset = offset

    def random(self):
        return self.offset


@settings(max_examples=40)
@given(cases)
def test_the_mean_over_the_offset_is_the_update(case):
    """Over evenly spaced offsets u the mean differs from the integral over u by at most two of their steps.

    An entry is drawn for an interval of offsets as long as its probability (or for two pieces of one, across 1). So it
    is sent with threshold t for a share of the offsets that is at most two steps from the probability.
    """
    update, k, _ = case
    if k == 0:
        return
    steps = 400
    mean = np.zeros(update.size)
    for step in range(steps):
        drawn, threshold = sample(update, k, Offset((step + 0.5) / steps))
        mean[drawn.indices] += drawn.values.astype(np.float64) / steps
    assert (np.abs(mean - update) <= threshold * (2 / steps + 1e-6)).all()


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_the_mean_of_what_is_read_is_the_update(density):
    """Sampling and rounding together, by whole payloads: within five standard errors in every entry, and in sum.

    An entry has at most the variance (x(t - x) below the threshold t, a quarter of the square of a grid's step above
    it), and the sum of the squared errors has the sum of the variances as its expectation.
    """
    update, draws, generator = heavy_tailed(300), 400, rng()
    codec, layout = codec_of(density), flat(300)
    mean = np.zeros(update.size)
    for _ in range(draws):
        mean += codec.write(update, layout, generator).sent.dense().astype(np.float64) / draws
    _, threshold = sample(update, count_for(density, update.size), rng())
    magnitude = np.abs(update.astype(np.float64))
    points = reaching_grid(threshold, float(max(magnitude.max(), threshold)), BITS).magnitudes()
    above = np.clip(np.searchsorted(points, magnitude, side="right") - 1, 0, points.size - 2)
    variance = np.maximum((magnitude - points[above]) * (points[above + 1] - magnitude), 0) / draws
    error = mean - update
    assert (np.abs(error) <= 5 * np.sqrt(variance) + threshold * 5 / draws + 1e-6 * magnitude).all()
    assert (error**2).sum() <= 2 * variance.sum()


def test_top_k_would_fail_the_test_of_the_mean():
    """The test above can fail: the mean of top-k is far from the update."""
    update, layout = heavy_tailed(300), flat(300)
    sent = codec_for(CodecChoice(name="topk-4", density=0.1)).write(update, layout, rng()).sent.dense()
    _, threshold = sample(update, 30, rng())
    magnitude = np.abs(update.astype(np.float64))
    variance = np.where(magnitude < threshold, magnitude * (threshold - magnitude), 0) / 400
    assert ((sent - update) ** 2).sum() > 10 * variance.sum()


def test_as_many_are_drawn_as_were_asked_for():
    update = heavy_tailed(5_000)
    for k in (1, 2, 50, 500, 1_500):
        counts = {sample(update, k, rng(seed))[0].indices.size for seed in range(20)}
        assert counts <= {k - 1, k}  # the threshold is rounded up, so their sum may be a little below k


def test_an_update_with_no_more_than_k_entries_is_sent_whole():
    update = np.zeros(50, np.float32)
    update[[3, 20, 41]] = [0.5, -1.0, 7.0]
    drawn, threshold = sample(update, 10, rng())
    assert (drawn.indices.tolist(), drawn.values.tolist(), threshold) == ([3, 20, 41], [0.5, -1.0, 7.0], 0.5)


def test_all_alike_are_sent_as_the_first_level():
    """Nothing but signs is left to say of them."""
    update = np.full(6_000, -0.25, np.float32)
    written = codec_of(0.1).write(update, flat(6_000), rng())
    assert np.unique(written.sent.values).tolist() == [-2.5]
    assert len(written.payload()) < 15 + (math.log2(math.comb(6_000, 600)) + 1.1 * 600) / 8


@pytest.mark.parametrize("update", [[LEAST, -LEAST, LEAST], [LARGEST, 1.0, -LEAST], [-1e38, 1e38, 0.0]])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_ends_of_float32_are_read_as_they_were_sent(update, k):
    codec, layout = codec_of(k / 3), flat(3)
    written = codec.write(np.array(update, np.float32), layout, rng())
    read = codec.decode(written.payload(), layout)
    assert read.values.tobytes() == written.sent.values.tobytes()
    assert np.isfinite(read.values).all()


def test_a_threshold_beyond_float32_is_refused():
    with pytest.raises(LocalProtocolError, match="dense-f32"):
        sample(np.full(4, LARGEST, np.float32), 2, rng())


def test_a_value_far_above_the_others_raises_the_threshold_and_the_mean_stays_the_update():
    update = np.full(1_000, 1e-3, np.float32)
    update[7] = 1_000.0
    drawn, threshold = sample(update, 500, rng())
    assert threshold == 1_000 / 64
    assert drawn.indices.size < 500
    assert drawn.values.astype(np.float64).sum() == pytest.approx(1_000, abs=threshold)


def test_another_seed_draws_other_entries_and_the_same_seed_the_same():
    update = heavy_tailed(TINY.size)
    payloads = [codec_of(0.01).encode(update, TINY, rng(seed)) for seed in (1, 1, 2)]
    assert payloads[0] == payloads[1] != payloads[2]


def test_the_update_is_not_changed():
    update = heavy_tailed(100)
    update.setflags(write=False)
    sample(update, 10, rng())
