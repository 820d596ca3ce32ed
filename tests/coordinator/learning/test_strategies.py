import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.learning.strategies import (
    RateSchedule,
    StrategyChoice,
    StrategyName,
    highest_losses,
    last_average,
    optimizer_for,
    state_from_bytes,
    state_to_bytes,
)
from nightjar.coordinator.learning.strategies.rate_schedule import Decay, rate_share
from nightjar.coordinator.learning.strategies.server_optimizer import (
    fed_adagrad,
    fed_adam,
    fed_avg,
    fed_avg_m,
    fed_yogi,
)
from nightjar.wire.identifiers import DeviceId

X = np.array([1.0], np.float32)
VECTORS = {
    StrategyName.FEDSGD: 0,
    StrategyName.FEDPROX: 0,
    StrategyName.FEDAVG: 0,
    StrategyName.FEDAVGM: 1,
    StrategyName.FEDADAGRAD: 1,
    StrategyName.FEDADAM: 2,
    StrategyName.FEDYOGI: 2,
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


@pytest.mark.parametrize("name", StrategyName)
def test_each_is_to_be_had_by_name_and_keeps_as_many_vectors_as_it_says(name):
    optimizer = optimizer_for(StrategyChoice(name=name, learning_rate=0.1))
    state = optimizer.init(3)
    weights, mean = np.ones(3, np.float32), np.array([0.0, 1e-3, -1e-3])
    following, after = optimizer.apply(weights, mean, state)
    assert state.shape == after.shape == (VECTORS[name], 3)
    assert following.dtype == np.float32
    assert after.dtype == np.float64
    assert following[0] == 1
    assert following[1] > 1 > following[2], "the mean update points the way"


@pytest.mark.parametrize("name", StrategyName)
def test_none_changes_what_it_is_given(name):
    optimizer = optimizer_for(StrategyChoice(name=name, learning_rate=1.0))
    weights, mean, state = np.ones(2, np.float32), np.ones(2), optimizer.init(2)
    before = state.copy()
    optimizer.apply(weights, mean, state)
    assert (weights.tolist(), mean.tolist(), state.tolist()) == ([1, 1], [1, 1], before.tolist())


@pytest.mark.parametrize("name", StrategyName)
@given(
    means=st.lists(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), min_size=1, max_size=6),
    cut=st.integers(0, 5),
)
def test_a_restart_between_two_rounds_changes_nothing(name, means, cut):
    optimizer = optimizer_for(StrategyChoice(name=name, learning_rate=0.1))

    def run(stored_before: int):
        weights, state = np.zeros(2, np.float32), optimizer.init(2)
        for number, mean in enumerate(means):
            if number == stored_before:
                state = state_from_bytes(state_to_bytes(name.value, state), name.value, optimizer.init(2))
            weights, state = optimizer.apply(weights, np.array(mean), state)
        assert np.isfinite(weights).all()
        return weights.tobytes(), state.tobytes()

    assert run(cut) == run(-1)


@pytest.mark.parametrize(
    "kept",
    [
        state_to_bytes("fedyogi", np.ones((2, 3))),
        state_to_bytes("fedadam", np.ones((2, 4))),
        b"",
        b"fedadam\n",
        np.ones((2, 3)).tobytes(),
    ],
    ids=["another optimizer", "another model", "nothing", "cut off", "no name"],
)
def test_a_state_that_means_something_else_is_begun_anew(kept):
    first = optimizer_for(StrategyChoice(name=StrategyName.FEDADAM, learning_rate=1.0)).init(3)
    np.testing.assert_array_equal(state_from_bytes(kept, "fedadam", first), first)


def test_a_schedule_scales_the_step_of_a_round():
    halved = RateSchedule(decay=Decay.EXPONENTIAL, decay_rounds=10)
    optimizer = optimizer_for(StrategyChoice(name=StrategyName.FEDAVG, learning_rate=2.0, schedule=halved), committed=5)
    moved, _ = optimizer.apply(X, np.array([3.0]), optimizer.init(1))
    assert moved.item() == pytest.approx(1 + 2.0 * math.sqrt(0.05) * 3.0)


@pytest.mark.parametrize(
    ("decay", "shares"),
    [
        # W = 2, T = 4, f = 0.05: cosine is 0.05 + 0.95 (1 + cos(pi r / 4)) / 2, exponential 0.05 ^ (r / 4)
        (Decay.CONSTANT, [0.5, 1, 1, 1, 1, 1]),
        (
            Decay.COSINE,
            [0.5, 0.525 + 0.475 * math.sqrt(0.5), 0.525, 0.525 - 0.475 * math.sqrt(0.5), 0.05, 0.05],
        ),
        (Decay.EXPONENTIAL, [0.5, 0.05**0.25, 0.05**0.5, 0.05**0.75, 0.05, 0.05]),
    ],
)
def test_schedules_by_hand(decay, shares):
    schedule = RateSchedule(decay=decay, warm_up_rounds=2, decay_rounds=4)
    assert [rate_share(schedule, committed) for committed in range(6)] == pytest.approx(shares)


def test_the_average_of_the_last_weights_by_hand():
    # K = 3: y1 = 3, y2 = 3 + (6 - 3) / 2 = 4.5, y3 = 4.5 + (0 - 4.5) / 3 = 3, y4 = 3 + (9 - 3) / 3 = 5
    mean, found = np.zeros(1), []
    for number, weight in enumerate([3.0, 6.0, 0.0, 9.0], start=1):
        mean = last_average(mean, np.array([weight], np.float32), number, window=3)
        found.append(mean.item())
    assert found == [3.0, 4.5, 3.0, 5.0]
    assert last_average(mean, X, number=5, window=1).item() == 1.0, "a window of one round is that round"


def test_power_of_choice_prefers_high_losses_and_those_whose_loss_is_unknown():
    drawn = [DeviceId(each) for each in "abcd"]
    losses = {DeviceId("a"): 3.0, DeviceId("b"): 5.0, DeviceId("c"): 4.0, DeviceId("z"): 9.0}
    assert highest_losses(drawn, losses, 2) == ["b", "d"]
    assert highest_losses(drawn, losses, 3) == ["b", "c", "d"]
    assert highest_losses(drawn, losses, 9) == drawn, "as many as there are"
    assert highest_losses(drawn, dict.fromkeys(drawn, 1.0), 2) == ["a", "b"], "equal losses: in order of names"
