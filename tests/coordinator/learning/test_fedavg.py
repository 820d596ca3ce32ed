import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.learning.fedavg import (
    ClientUpdate,
    Contribution,
    TooFewReadableError,
    federated_average,
    first_clip_norm,
    following_quantile,
    largest_weight,
    next_clip_norm,
    weight_of,
    weighted_mean,
)
from nightjar.coordinator.learning.strategies import Weighting
from nightjar.coordinator.learning.strategies.server_optimizer import fed_avg
from nightjar.wire.codec import Sparse, codec_for
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

DENSE = codec_for(CodecChoice(name="dense-f32"))
LAYOUT = ParameterLayout((ParameterSpec("bias", (3,)),))


def contribution(name: str, weight: float, *values: float) -> Contribution:
    dense = np.array(values, np.float32)
    indices = np.flatnonzero(dense).astype(np.int64)
    return Contribution(DeviceId(name), weight, Sparse(dense.size, indices, dense[indices]))


def client(name: str, num_examples: int, *values: float) -> ClientUpdate:
    payload = DENSE.encode(np.array(values, np.float32), LAYOUT, np.random.default_rng(0))
    return ClientUpdate(DeviceId(name), num_examples, lambda: payload)


def average(updates, **options):
    optimizer = fed_avg(1.0)
    return federated_average(np.zeros(3, np.float32), optimizer.init(3), updates, DENSE, LAYOUT, optimizer, **options)


def test_the_weighted_mean_equals_the_one_by_hand():
    mean = weighted_mean([contribution("a", 1, 1, 0, 4), contribution("b", 3, 5, 2, 0)], 3)
    assert mean.tolist() == [(1 + 15) / 4, 6 / 4, 4 / 4]


def test_a_weight_is_capped():
    assert weight_of(50, 20) == 20.0


def test_nobody_weighs_more_than_half_of_the_cohort():
    assert largest_weight([5, 7, 2**32 - 1]) == 7
    assert largest_weight([5, 2**32 - 1]) == 5


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [(Weighting.CAPPED, (2 + 4) / 2), (Weighting.EXAMPLES, (10 * 2 + 30 * 4) / 40), (Weighting.EQUAL, (2 + 4) / 2)],
)
def test_what_more_examples_weigh(weighting, expected):
    cohort = [client("a", 10, 2, 0, 0), client("b", 30, 4, 0, 0)]
    assert average(cohort, clip_norm=10.0, weighting=weighting).weights.tolist() == [expected, 0, 0]


NORMS = st.lists(st.floats(0, 1e6), min_size=3, max_size=40)


@given(NORMS, st.data())
def test_the_first_clip_norm_is_one_that_a_sound_device_had_whatever_fewer_than_half_say(sound, data):
    lies = data.draw(st.lists(st.floats(0, 1e30), max_size=(len(sound) - 1) // 2))
    found = first_clip_norm([*sound, *lies])
    moving = [norm for norm in sound if norm > 0]
    if len(moving) > len(lies):
        assert found <= max(moving)


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_the_clip_norm_comes_to_its_quantile_and_stays(quantile):
    norms = np.random.default_rng(1).lognormal(1.0, 0.5, 1000)
    wanted = np.quantile(norms, quantile)
    for first in (0.1 * wanted, 10 * wanted):
        clip_norm = first
        for _ in range(200):
            clip_norm = next_clip_norm(clip_norm, float(np.mean(norms <= clip_norm)), quantile)
        assert clip_norm == pytest.approx(wanted, rel=0.05)


def test_with_the_largest_quantile_nobody_is_clipped_in_the_end():
    clip_norm, cohort = 1.0, [client("a", 1, 1, 0, 0), client("b", 1, 100, 0, 0)]
    for _ in range(60):
        averaged = average(cohort, clip_norm=clip_norm, next_norm=following_quantile(1.0))
        clip_norm = averaged.clip_norm
    assert averaged.weights.tolist() == [(1 + 100) / 2, 0, 0]
    assert 100 <= clip_norm < 111, "and it stays there"


def test_weights_are_those_of_the_step_by_hand():
    updates = [client("b", 3, 5, 2, 0), client("a", 1, 1, 0, 4)]
    averaged = average(updates, clip_norm=100.0)
    assert averaged.weights.tolist() == [(1 + 5) / 2, 2 / 2, 4 / 2], "nobody weighs more than the median of the two"
    assert averaged.clip_norm < 100.0, "all were within"
    assert averaged.unreadable == ()


def test_an_update_that_cannot_be_decoded_is_left_out_and_named():
    broken = ClientUpdate(DeviceId("b"), 1, lambda: b"?")
    averaged = average([client("a", 1, 2, 0, 0), broken], clip_norm=10.0)
    assert averaged.weights.tolist() == [2, 0, 0]
    assert averaged.unreadable == ("b",)
    with pytest.raises(TooFewReadableError) as caught:
        average([client("a", 1, 2, 0, 0), broken], clip_norm=10.0, minimum=2)
    assert caught.value.devices == ("b",)


def test_without_anybody_there_is_no_mean():
    with pytest.raises(LocalProtocolError, match="at least one"):
        average([], clip_norm=1.0)


@given(st.lists(st.tuples(st.floats(-(2.0**99), 2.0**99, width=32), st.integers(1, 50)), min_size=2, max_size=20))
def test_no_device_moves_the_model_by_more_than_its_share_of_the_clip_norm(parts):
    updates = [client(f"d{i:02d}", weight, value, 0, 0) for i, (value, weight) in enumerate(parts)]
    assert np.linalg.norm(average(updates, clip_norm=2.0).weights.astype(float)) <= 2.0 * (1 + 1e-6)


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
