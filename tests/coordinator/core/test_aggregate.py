import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.aggregate import Contribution, weight_of, weighted_mean
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
