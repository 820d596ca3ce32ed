import numpy as np
import pytest

from experiments import dense

RNG = np.random.default_rng(1)
LAYERS = dense.new_layers((5, 4, 3), RNG)
EXAMPLES = dense.Examples(RNG.normal(size=(6, 5)).astype(np.float32), RNG.integers(0, 3, 6))


def loss(layers):
    logits = dense.forward([dense.Layer(*(part.astype(np.float64) for part in layer)) for layer in layers], EXAMPLES.x)[
        -1
    ]
    return -np.log((np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))[np.arange(6), EXAMPLES.y]).mean()


def test_gradients_are_those_of_finite_differences():
    values = dense.forward(LAYERS, EXAMPLES.x)
    found = dense.flat(dense.backward(LAYERS, values, dense.slope_of_loss(values[-1], EXAMPLES.y))[0])
    at = dense.flat(LAYERS)
    for place in range(0, at.size, 5):
        step = np.zeros_like(at)
        step[place] = 1e-3
        beside = [loss(dense.unflat(at + sign * step, LAYERS)) for sign in (1, -1)]
        assert found[place] == pytest.approx((beside[0] - beside[1]) / 2e-3, abs=2e-4)


def test_the_mean_is_weighted_by_examples():
    other = dense.unflat(dense.flat(LAYERS) + 4, LAYERS)
    assert dense.flat(dense.mean([LAYERS, other], [3, 1])) == pytest.approx(dense.flat(LAYERS) + 1, abs=1e-6)


def test_it_learns_digits():
    train, test = dense.digits(1)
    layers = dense.trained(
        dense.new_layers((64, 32, 10), np.random.default_rng(1)), train, np.random.default_rng(1), epochs=5
    )
    assert dense.accuracy(layers, test) > 0.9
    assert sum(len(part.y) for part in dense.dealt(train, 7)) == len(train.y)
