import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.learning.aggregate import (
    Contribution,
    clipped,
    first_clip_norm,
    largest_weight,
    next_clip_norm,
    norm_of,
    weight_of,
    weighted_mean,
)
from wire.codec import Sparse
from wire.errors import LocalProtocolError
from wire.identifiers import DeviceId


def contribution(name: str, weight: float, *values: float) -> Contribution:
    dense = np.array(values, np.float32)
    indices = np.flatnonzero(dense).astype(np.int64)
    return Contribution(DeviceId(name), weight, Sparse(dense.size, indices, dense[indices]))


def test_the_weighted_mean_equals_the_one_by_hand():
    mean = weighted_mean([contribution("a", 1, 1, 0, 4), contribution("b", 3, 5, 2, 0)], 3)
    assert mean.tolist() == [(1 + 15) / 4, 6 / 4, 4 / 4]


def test_a_weight_is_capped():
    assert weight_of(50, 20) == 20.0


def test_nobody_weighs_more_than_half_of_the_cohort():
    assert largest_weight([5, 7, 2**32 - 1]) == 7
    assert largest_weight([5, 2**32 - 1]) == 5


NORMS = st.lists(st.floats(0, 1e6), min_size=3, max_size=40)


@given(NORMS, st.data())
def test_the_first_clip_norm_is_one_that_a_sound_device_had_whatever_fewer_than_half_say(sound, data):
    lies = data.draw(st.lists(st.floats(0, 1e30), max_size=(len(sound) - 1) // 2))
    found = first_clip_norm([*sound, *lies])
    moving = [norm for norm in sound if norm > 0]
    if len(moving) > len(lies):
        assert found <= max(moving)


def test_the_clip_norm_comes_to_the_median_and_stays():
    norms = np.random.default_rng(1).lognormal(1.0, 0.5, 1000).tolist()
    median = first_clip_norm(norms)
    for first in (0.1 * median, 10 * median):
        clip_norm = first
        for _ in range(100):
            clip_norm = next_clip_norm(clip_norm, norms)
        assert clip_norm == pytest.approx(median, rel=0.05)


@given(st.lists(st.tuples(st.floats(-(2.0**99), 2.0**99, width=32), st.integers(1, 50)), min_size=2, max_size=20))
def test_no_device_moves_the_mean_by_more_than_its_share_of_the_clip_norm(parts):
    contributions = [contribution(f"d{i:02d}", weight, value, 0) for i, (value, weight) in enumerate(parts)]
    norms = []
    found = list(clipped(contributions, 2.0, norms))
    assert norms == [norm_of(each.update) for each in contributions]
    assert all(each.scale * norm <= 2.0 * (1 + 1e-12) for each, norm in zip(found, norms, strict=True))
    assert np.linalg.norm(weighted_mean(found, 2)) <= 2.0 * (1 + 1e-9)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3, width=32), st.integers(1, 10**6)), min_size=1, max_size=20))
def test_the_mean_lies_between_the_extremes_and_repeats_bit_for_bit(parts):
    contributions = [contribution(f"d{i:02d}", weight, value) for i, (value, weight) in enumerate(parts)]
    mean = weighted_mean(contributions, 1)
    values = [float(np.float32(value)) for value, _ in parts]
    assert min(values) - 1e-6 <= mean[0] <= max(values) + 1e-6
    assert mean.tobytes() == weighted_mean(iter(contributions), 1).tobytes()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [contribution("b", 1, 1.0), contribution("a", 1, 1.0)],
        [contribution("a", 1, 1.0), contribution("a", 1, 1.0)],
        [contribution("a", 0, 1.0)],
        [contribution("a", 1, 1.0, 2.0)],
    ],
    ids=["nobody", "out of order", "twice", "weightless", "another size"],
)
def test_a_mean_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(LocalProtocolError):
        weighted_mean(wrong, 1)
