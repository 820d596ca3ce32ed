from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import ClientPlan, descend
from nightjar.experiments.networks import dense, lenet_5, resnet_8, softmax

pytestmark = pytest.mark.tensorflow  # some pages train with it

RNG = np.random.default_rng(5)
Y = np.array([0, 3, 3, 1, 2, 0])


@pytest.mark.parametrize(
    ("make", "shape"),
    [(lambda: dense(6, 4), (6,)), (lambda: dense(6, 5, 4), (6,)), (lenet_5, (784,)), (resnet_8, (32, 32, 3))],
)
def test_a_gradient_is_the_slope_of_the_loss(make, shape):
    network = make()
    weights = network.start(np.random.default_rng(1))
    x = np.random.default_rng(2).normal(size=(len(Y), *shape)).astype(np.float32)
    _, gradient = network.gradient(weights, x, Y)
    direction = np.random.default_rng(3).normal(size=network.size).astype(np.float32)
    direction *= np.float32(0.01 / np.linalg.norm(direction))
    examples = Examples(x, Y)
    slope = (network.loss(weights + direction, examples) - network.loss(weights - direction, examples)) / 2
    assert slope == pytest.approx(float(gradient @ direction), rel=0.05, abs=2e-5)


def test_steps_in_one_call_are_the_steps_one_by_one():
    network = lenet_5()
    start, examples = network.start(RNG), Examples(RNG.random((12, 784), np.float32), RNG.integers(0, 10, 12))
    together, apart = (
        descend(each, start, examples, ClientPlan(0.1, 4, 2), np.random.default_rng(1))
        for each in (network, dataclasses.replace(network, descent=None))
    )
    np.testing.assert_allclose(together, apart, atol=1e-6)


def test_sizes_are_those_of_the_papers():
    assert (lenet_5().size, dense(784, 128, 64, 10).size) == (61_706, 109_386)


def test_probabilities_in_place_of_labels_are_the_same_where_they_are_certain():
    network = dense(6, 5, 4)
    weights, x = network.start(RNG), RNG.normal(size=(len(Y), 6)).astype(np.float32)
    of_labels, of_shares = network.gradient(weights, x, Y), network.gradient(weights, x, np.eye(4, dtype=np.float32)[Y])
    assert of_labels[0] == pytest.approx(of_shares[0], rel=1e-5)
    np.testing.assert_allclose(of_labels[1], of_shares[1], atol=1e-6)


def test_a_network_learns_nothing_from_its_own_predictions():
    network = dense(6, 4)
    weights, x = network.start(RNG), RNG.normal(size=(len(Y), 6)).astype(np.float32)
    _, gradient = network.gradient(weights, x, softmax(network.scores(weights, x)))
    np.testing.assert_allclose(gradient, 0, atol=1e-6)
