"""The networks in JAX are those of NumPy and TensorFlow but for the last bits, one client at a time or all at once."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.experiments import networks
from nightjar.experiments.__main__ import main
from nightjar.experiments.data_sets import Examples
from nightjar.experiments.engine import FEDAVG, ClientPlan, Federation, averaging, descend, descend_each, gradient_each
from tests.lazily import Lazy

jax_networks = Lazy("nightjar.experiments.jax_networks")

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

RNG = np.random.default_rng(5)
CLIENTS = [Examples(RNG.random((12, 784), np.float32), RNG.integers(0, 10, 12)) for _ in range(3)]
PLAN = ClientPlan(rate=0.05, batch=4, epochs=2)


@pytest.mark.parametrize("name", ["two_nn", "lenet_5"])
def test_a_gradient_and_scores_are_those_of_the_other_library(name):
    theirs, mine = getattr(networks, name)(), getattr(jax_networks, name)()
    weights, examples = theirs.start(np.random.default_rng(1)), CLIENTS[0]
    (loss, gradient), (expected_loss, expected) = (
        each.gradient(weights, examples.x, examples.y) for each in (mine, theirs)
    )
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(gradient, expected, atol=1e-5)
    assert np.abs(expected).max() > 0.01
    found = mine.scores(weights, jax_networks.on_device(examples).x)
    np.testing.assert_allclose(found, theirs.scores(weights, examples.x), atol=1e-4)


@pytest.mark.parametrize("name", ["two_nn", "lenet_5"])
def test_clients_at_once_end_where_each_ends_alone_with_the_other_library(name):
    theirs, mine = getattr(networks, name)(), getattr(jax_networks, name)()
    start, rng = theirs.start(np.random.default_rng(1)), np.random.default_rng(2)
    expected = [descend(theirs, start, each, PLAN, rng) for each in CLIENTS]
    moved = [jax_networks.on_device(each) for each in CLIENTS]
    found = descend_each(mine, start, moved, PLAN, np.random.default_rng(2))
    for at_once, alone in zip(found, expected, strict=True):
        np.testing.assert_allclose(at_once, alone, atol=1e-4)
        assert np.abs(alone - start).max() > 0.001


@pytest.mark.parametrize("name", ["two_nn", "lenet_5"])
def test_gradients_at_once_are_those_of_each_client(name):
    theirs, mine = getattr(networks, name)(), getattr(jax_networks, name)()
    weights = theirs.start(np.random.default_rng(1))
    found, expected = (gradient_each(each, weights, CLIENTS) for each in (mine, theirs))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_clients_of_different_sizes_are_trained_one_after_the_other():
    mine = jax_networks.two_nn()
    start = mine.start(np.random.default_rng(1))
    uneven = [CLIENTS[0], CLIENTS[1].at(np.arange(8))]
    federations = [Federation(network, uneven, CLIENTS[2]) for network in (mine, networks.two_nn())]
    found, expected = (
        averaging(each, PLAN, FEDAVG)(0, start, [0, 1], np.random.default_rng(3))[0] for each in federations
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_thesis_takes_it_and_other_pages_refuse_it(tmp_path):
    def run(page, *more):
        return CliRunner().invoke(main, ["--form", "smoke", "--page", page, "--jax", "--out", str(tmp_path), *more])

    done = run("thesis", "--only", "q-fedavg")
    assert done.exit_code == 0, done.output
    assert "5-5-q-fedavg LeNet-5-shards" in done.output
    refused = run("delay")
    assert refused.exit_code == 2
    assert "expected --jax with thesis" in refused.output


def test_a_machine_without_jax_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nightjar.experiments.jax_networks", None)
    monkeypatch.delattr("nightjar.experiments.jax_networks", raising=False)
    found = CliRunner().invoke(main, ["--form", "smoke", "--page", "thesis", "--jax", "--out", str(tmp_path)])
    assert found.exit_code == 2
    assert "--jax needs JAX: pip install 'nightjar-federated[jax]'" in found.output
