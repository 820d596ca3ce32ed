import numpy as np
import pytest

from nightjar.experiments.recurrent import CELLS, clipped, loss_and_gradient, losses, moved, new_weights

RNG = np.random.default_rng(3)
X, Y = RNG.integers(0, 5, (2, 4, 2))


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_through_time_are_those_of_finite_differences(cell):
    weights = new_weights(cell, 5, 3, 4, np.random.default_rng(1))
    _, gradient = loss_and_gradient(cell, weights, X, Y)
    for name, value in weights.items():
        found = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            step = {other: np.zeros_like(each) for other, each in weights.items()}
            step[name][place] = 1e-5
            beside = [losses(cell, moved(weights, step, sign), X, Y).mean() for sign in (1, -1)]
            found[place] = (beside[0] - beside[1]) / 2e-5
        assert gradient[name] == pytest.approx(found, abs=1e-9), name


def test_the_closed_form_of_the_simple_network_is_its_gradient_through_time():
    weights = new_weights("simple", 5, 3, 4, np.random.default_rng(1))
    _, gradient = loss_and_gradient("simple", weights, X, Y)
    by_x, by_h, out = weights["kernel"][4:], weights["kernel"][:4], weights["output"]
    inputs = [weights["embedding"][row] for row in X]
    h, states, slopes = np.zeros((2, 4)), [], []
    for t, x in enumerate(inputs):
        h = h @ by_h + x @ by_x
        states.append(h)
        p = np.exp(h @ out)
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(2), Y[t]] -= 1
        slopes.append(p / X.size)
    length = len(X)
    # dL/dh_t = sum over i = t..T of (W_hh^T)^(T-i) W_qh^T dL/do_(T+t-i)
    by_state = [
        sum(slopes[later] @ out.T @ np.linalg.matrix_power(by_h.T, later - t) for later in range(t, length))
        for t in range(length)
    ]
    assert sum(x.T @ d for x, d in zip(inputs, by_state, strict=True)) == pytest.approx(gradient["kernel"][4:])


def test_clipping_shortens_and_keeps_the_direction():
    short = clipped({"a": np.array([3.0, 4.0])}, 1.0)
    assert short["a"].tolist() == pytest.approx([0.6, 0.8])
    assert clipped({"a": np.array([0.3])}, 1.0)["a"].tolist() == [0.3]
