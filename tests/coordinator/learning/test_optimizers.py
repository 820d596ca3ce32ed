import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.learning.optimizers import (
    OptimizerChoice,
    OptimizerName,
    fed_adagrad,
    fed_adam,
    fed_avg,
    fed_avg_m,
    fed_yogi,
    optimizer_for,
    state_from_bytes,
    state_to_bytes,
)

X = np.array([1.0], np.float32)
VECTORS = {
    OptimizerName.FEDAVG: 0,
    OptimizerName.FEDAVGM: 1,
    OptimizerName.FEDADAGRAD: 1,
    OptimizerName.FEDADAM: 2,
    OptimizerName.FEDYOGI: 2,
}


def two_steps(optimizer, first: float, second: float):
    """Weights after each of two rounds, and the state after both."""
    once, state = optimizer.apply(X, np.array([first]), optimizer.init(1))
    twice, state = optimizer.apply(once, np.array([second]), state)
    return once.item(), twice.item(), state[:, 0].tolist()


def test_fed_avg_adds_the_mean():
    assert two_steps(fed_avg(0.5), 2.0, -4.0) == (2.0, 0.0, [])


def test_fed_avg_m_by_hand():
    # m1 = 2, x1 = 1 + 0.5 * 2 = 2; m2 = 0.9 * 2 + 4 = 5.8, x2 = 2 + 0.5 * 5.8 = 4.9
    once, twice, state = two_steps(fed_avg_m(learning_rate=0.5, momentum=0.9), 2.0, 4.0)
    assert (once, twice, state) == (2.0, pytest.approx(4.9), [pytest.approx(5.8)])


def test_fed_adagrad_by_hand():
    # v0 = 0.01; v1 = 4.01, x1 = 1 + 0.5 * 2 / (sqrt 4.01 + 0.1); v2 = 20.01, x2 = x1 + 0.5 * 4 / (sqrt 20.01 + 0.1)
    once, twice, state = two_steps(fed_adagrad(learning_rate=0.5, adaptivity=0.1), 2.0, 4.0)
    assert once == pytest.approx(1 + 1 / 2.1024984, rel=1e-6)
    assert twice == pytest.approx(once + 2 / 4.5732538, rel=1e-6)
    assert state == [pytest.approx(20.01)]


def test_fed_adam_by_hand():
    # v0 = 0.01. m1 = 0.1 * 2 = 0.2, v1 = 0.99 * 0.01 + 0.01 * 4 = 0.0499; m2 = 0.9 * 0.2 + 0.1 * 4 = 0.58,
    # v2 = 0.99 * 0.0499 + 0.01 * 16 = 0.209401. No bias correction.
    optimizer = fed_adam(learning_rate=0.5, momentum=0.9, second_momentum=0.99, adaptivity=0.1)
    once, twice, state = two_steps(optimizer, 2.0, 4.0)
    assert once == pytest.approx(1 + 0.1 / (math.sqrt(0.0499) + 0.1), rel=1e-6)
    assert twice == pytest.approx(once + 0.29 / (math.sqrt(0.209401) + 0.1), rel=1e-6)
    assert state == [pytest.approx(0.58), pytest.approx(0.209401)]


def test_fed_yogi_by_hand():
    # v0 = 1. d = 2: v1 = 1 - 0.01 * 4 * sign(1 - 4) = 1.04.
    # d = 0.5: v2 = 1.04 - 0.01 * 0.25 * sign(1.04 - 0.25) = 1.0375
    optimizer = fed_yogi(learning_rate=0.5, momentum=0.9, second_momentum=0.99, adaptivity=1.0)
    once, twice, state = two_steps(optimizer, 2.0, 0.5)
    assert once == pytest.approx(1 + 0.1 / (math.sqrt(1.04) + 1), rel=1e-6)
    assert twice == pytest.approx(once + 0.5 * 0.23 / (math.sqrt(1.0375) + 1), rel=1e-6)
    assert state == [pytest.approx(0.23), pytest.approx(1.0375)]


@pytest.mark.parametrize("name", OptimizerName)
def test_each_is_to_be_had_by_name_and_keeps_as_many_vectors_as_it_says(name):
    optimizer = optimizer_for(OptimizerChoice(name=name, learning_rate=0.1))
    state = optimizer.init(3)
    weights, mean = np.ones(3, np.float32), np.array([0.0, 1e-3, -1e-3])
    following, after = optimizer.apply(weights, mean, state)
    assert state.shape == after.shape == (VECTORS[name], 3)
    assert following.dtype == np.float32
    assert after.dtype == np.float64
    assert following[0] == 1
    assert following[1] > 1 > following[2], "the mean update points the way"


@pytest.mark.parametrize("name", OptimizerName)
def test_none_changes_what_it_is_given(name):
    optimizer = optimizer_for(OptimizerChoice(name=name, learning_rate=1.0))
    weights, mean, state = np.ones(2, np.float32), np.ones(2), optimizer.init(2)
    before = state.copy()
    optimizer.apply(weights, mean, state)
    assert (weights.tolist(), mean.tolist(), state.tolist()) == ([1, 1], [1, 1], before.tolist())


@pytest.mark.parametrize("name", OptimizerName)
@given(
    means=st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), min_size=1, max_size=6),
    cut=st.integers(0, 5),
)
def test_a_restart_between_two_rounds_changes_nothing(name, means, cut):
    optimizer = optimizer_for(OptimizerChoice(name=name, learning_rate=0.1))

    def run(stored_before: int):
        weights, state = np.zeros(2, np.float32), optimizer.init(2)
        for number, mean in enumerate(means):
            if number == stored_before:
                state = state_from_bytes(state_to_bytes(name, state), name, optimizer.init(2))
            weights, state = optimizer.apply(weights, np.array(mean), state)
        assert np.isfinite(weights).all()
        return weights.tobytes(), state.tobytes()

    assert run(cut) == run(-1)


@pytest.mark.parametrize(
    "kept",
    [
        state_to_bytes(OptimizerName.FEDYOGI, np.ones((2, 3))),
        state_to_bytes(OptimizerName.FEDADAM, np.ones((2, 4))),
        b"",
        b"fedadam\n",
        np.ones((2, 3)).tobytes(),
    ],
    ids=["another optimizer", "another model", "nothing", "cut off", "no name"],
)
def test_a_state_that_means_something_else_is_begun_anew(kept):
    first = optimizer_for(OptimizerChoice(name=OptimizerName.FEDADAM, learning_rate=1.0)).init(3)
    np.testing.assert_array_equal(state_from_bytes(kept, OptimizerName.FEDADAM, first), first)
