import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.codec.sparsify import count_for, top_k
from tests.wire.strategies import vectors


@pytest.mark.slow
@given(st.integers(0, 40).flatmap(lambda n: st.tuples(vectors(n), st.integers(0, n))))
def test_exactly_k_of_the_largest_magnitudes_in_ascending_order(case):
    vector, k = case
    sparse = top_k(vector, k)
    assert sparse.indices.size == k
    assert (np.diff(sparse.indices) > 0).all()
    assert (sparse.values == vector[sparse.indices]).all()
    rest = np.delete(np.abs(vector), sparse.indices)
    assert k == 0 or rest.size == 0 or np.abs(sparse.values).min() >= rest.max()


def test_ties_go_to_the_lowest_index():
    assert top_k(np.array([2, 1, -1, 1, 1], np.float32), 3).indices.tolist() == [0, 1, 2]


def test_density_rounds_up_and_never_asks_for_nothing():
    assert [count_for(0.001, n) for n in (0, 1, 999, 1000, 1001)] == [0, 1, 1, 1, 2]
