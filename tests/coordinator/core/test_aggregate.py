import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.aggregate import Contribution, fed_avg, fed_avg_m, weight_of, weighted_mean
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


def test_fed_avg_adds_the_mean():
    optimizer = fed_avg(0.5)
    weights, state = optimizer.apply(np.array([1, 2], np.float32), np.array([2.0, -4.0]), optimizer.init(2))
    assert weights.dtype == np.float32
    assert weights.tolist() == [2.0, 0.0]
    assert state.size == 0


def test_two_steps_of_fed_avg_m_equal_those_by_hand():
    optimizer = fed_avg_m(learning_rate=0.5, momentum=0.9)
    weights, state = optimizer.apply(np.array([1.0], np.float32), np.array([2.0]), optimizer.init(1))
    # v1 = 0.9 * 0 + 2 = 2, x1 = 1 + 0.5 * 2 = 2; v2 = 0.9 * 2 + 4 = 5.8, x2 = 2 + 0.5 * 5.8 = 4.9
    assert (weights.tolist(), state.tolist()) == ([2.0], [2.0])
    weights, state = optimizer.apply(weights, np.array([4.0]), state)
    assert weights.tolist() == [pytest.approx(4.9)]
    assert state.tolist() == [pytest.approx(5.8)]


def test_optimizers_do_not_change_what_they_are_given():
    weights, mean, velocity = np.ones(2, np.float32), np.ones(2), np.ones(2)
    fed_avg_m(1.0, 0.9).apply(weights, mean, velocity)
    assert (weights.tolist(), mean.tolist(), velocity.tolist()) == ([1, 1], [1, 1], [1, 1])
