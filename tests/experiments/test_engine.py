from __future__ import annotations

import numpy as np
import pytest

from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName
from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import (
    ClientPlan,
    Federation,
    alike_federation,
    averaging,
    descend,
    play,
    reached,
    synthetic_federation,
)
from nightjar.experiments.networks import dense

RNG = np.random.default_rng(4)
NETWORK = dense(3, 2)


def _examples(count):
    return Examples(RNG.normal(size=(count, 3)).astype(np.float32), RNG.integers(0, 2, count))


CLIENTS = [_examples(4), _examples(12)]
FEDERATION = Federation(NETWORK, CLIENTS, _examples(8))
START = NETWORK.start(np.random.default_rng(0))


def test_a_full_batch_is_one_step_of_gradient_descent():
    found = descend(NETWORK, START, CLIENTS[0], ClientPlan(0.5, batch=100), np.random.default_rng(1))
    expected = START - np.float32(0.5) * NETWORK.gradient(START, CLIENTS[0].x, CLIENTS[0].y)[1]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_fedsgd_of_all_clients_is_a_step_on_the_pooled_examples():
    advance = averaging(FEDERATION, ClientPlan(0.5, batch=100))
    found, _ = advance(0, START, [0, 1], np.random.default_rng(1))
    pooled = FEDERATION.pooled
    expected = START - np.float32(0.5) * NETWORK.gradient(START, pooled.x, pooled.y)[1]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_products_server_optimizer_is_used():
    choice = StrategyChoice(name=StrategyName.FEDAVGM, learning_rate=1.0, momentum=0.5)
    momentum, plain = (averaging(FEDERATION, ClientPlan(0.5, batch=100), *which) for which in ((choice,), ()))
    rng = np.random.default_rng(1)
    once, of_plain = momentum(0, START, [0], rng)[0], plain(0, START, [0], rng)[0]
    np.testing.assert_allclose(once, of_plain, atol=1e-6)
    twice, again = momentum(1, once, [0], rng)[0], plain(1, once, [0], rng)[0]
    np.testing.assert_allclose(twice - again, 0.5 * (once - START), atol=1e-5)


def test_a_proximal_term_keeps_clients_near():
    plan = ClientPlan(0.1, batch=4, epochs=50)
    far, near = (averaging(FEDERATION, plan, mu=mu)(0, START, [0], np.random.default_rng(1))[0] for mu in (0.0, 5.0))
    assert np.linalg.norm(near - START) < 0.5 * np.linalg.norm(far - START)


@pytest.mark.parametrize(
    ("plan", "steps"), [(ClientPlan(0.1, 5), 3), (ClientPlan(0.1, 5, epochs=2), 6), (ClientPlan(0.1, 5, steps=7), 7)]
)
def test_steps_of_a_plan(plan, steps):
    assert plan.count(12) == steps


def test_the_same_seed_plays_the_same():
    one, two = (play(FEDERATION, averaging(FEDERATION, ClientPlan(0.1, 4)), 3, 4, 1) for _ in range(2))
    assert one.points == two.points
    assert np.array_equal(one.weights, two.weights)


def test_training_ends_at_its_target_or_its_budget():
    advance = averaging(FEDERATION, ClientPlan(0.1, 4))
    assert len(play(FEDERATION, advance, 3, 9, 1, until=0.0).points) == 2
    assert play(FEDERATION, advance, 3, 9, 1, cost=3.0).points[-1][0] == 3.0


def test_a_cost_is_that_of_the_first_measurement_at_the_accuracy():
    assert reached([(0, 0.1), (5, 0.6), (9, 0.7)], 0.5) == 5
    assert reached([(0, 0.1)], 0.5) is None


def test_dealt_at_random_the_same_examples_differ_less():
    def spread(federation):
        return np.std([np.bincount(each.y, minlength=10).max() / len(each) for each in federation.clients])

    differing, alike = synthetic_federation(1), alike_federation(1)
    assert len(differing.pooled) == len(alike.pooled)
    assert spread(alike) < spread(differing)
