"""2NN and LeNet-5 in JAX, which trains all clients of a round at once: on a GPU, the thesis' tables take minutes.

Clients differ in their kernels after their first step, so a convolution is a product here, one for each of them: of a
row with its neighbours, and the kernel written along the diagonals of a matrix. That is some four times the arithmetic
in products of the size that a GPU is good at, and a fifth of the copies. Products have full float32 precision.

The networks, their order of examples and their random start are those of :mod:`nightjar.experiments.networks`; sums
have another order, and equal values of a pool share its gradient, so weights differ in the last bits, and over many
steps in more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nightjar.experiments.data_sets import Examples, Floats, Indices, Labels
from nightjar.experiments.networks import LENET_5, Classifier, dense
from nightjar.wire.parameters import Vector

Arrays = Sequence[jax.Array]
AT_ONCE = 10_000
"""All test images of MNIST: LeNet-5 takes 1.5 GB for them."""


def on_device(examples: Examples) -> Examples:
    """The same examples with x where JAX computes: it is not copied there again in each round."""
    return Examples(jnp.asarray(examples.x), examples.y)  # type: ignore[arg-type]  # indexed like an array of NumPy


@functools.cache
def two_nn() -> Classifier:
    """The 2NN of :func:`nightjar.experiments.networks.two_nn`."""
    return _in_jax(dense(784, 128, 64, 10).shapes, _layers)


@functools.cache
def lenet_5() -> Classifier:
    """The LeNet-5 of :func:`nightjar.experiments.networks.lenet_5`."""

    def scores(arrays: Arrays, x: jax.Array) -> jax.Array:
        h = jnp.pad(x.reshape(-1, 28, 28, 1), ((0, 0), (2, 2), (2, 2), (0, 0)))
        h = _pooled(h, *arrays[:2])
        h = _pooled(h, *arrays[2:4])
        return _layers(arrays[4:], h.reshape(-1, 400))

    return _in_jax(LENET_5, scores)


def _pooled(h: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Convolution, maximum of each square of four, bias and ReLU: (b, s + 4, s + 4, in) -> (b, s/2, s/2, out)."""
    rows, columns, inputs, outputs = kernel.shape
    wide, side = h.shape[2], h.shape[1] - rows + 1
    places = np.stack([np.eye(wide, side, -shift, np.float32) for shift in range(columns)])
    banded = jnp.einsum("ijco,jst->iscto", kernel, places).reshape(rows * wide * inputs, side * outputs)
    lines = h.reshape(-1, h.shape[1], wide * inputs)
    found = jnp.concatenate([lines[:, i : i + side] for i in range(rows)], 2) @ banded
    squares = found.reshape(-1, side // 2, 2, side // 2, 2, outputs)
    return jax.nn.relu(squares.max((2, 4)) + bias)


def _layers(arrays: Arrays, h: jax.Array) -> jax.Array:
    """Dense layers with ReLU between them."""
    for matrix, bias in zip(arrays[:-2:2], arrays[1:-2:2], strict=True):
        h = jax.nn.relu(h @ matrix + bias)
    return h @ arrays[-2] + arrays[-1]


def _in_jax(shapes: Sequence[tuple[int, ...]], score: Callable[[Arrays, jax.Array], jax.Array]) -> Classifier:
    cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1].tolist()

    def arrays_of(weights: jax.Array) -> Arrays:
        return [part.reshape(shape) for part, shape in zip(jnp.split(weights, cuts), shapes, strict=True)]

    def mean_loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        shares = jax.nn.log_softmax(score(arrays_of(weights), x))
        return -jnp.take_along_axis(shares, y[:, None], 1).mean()

    def steps(weights: jax.Array, x: jax.Array, y: jax.Array, batches: jax.Array, rate: jax.Array) -> jax.Array:
        """One client's weights after all its batches."""

        def step(now: jax.Array, batch: jax.Array) -> tuple[jax.Array, None]:
            return now - rate * jax.grad(mean_loss)(now, x[batch], y[batch]), None

        return jax.lax.scan(step, weights, batches)[0]

    def exact(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = jax.jit(function)

        def call(*given: Any) -> Any:
            with jax.default_matmul_precision("highest"):
                return jax.device_get(compiled(*given))

        return call

    forward = exact(lambda weights, x: score(arrays_of(weights), x))
    once = exact(jax.value_and_grad(mean_loss))
    of_each = exact(jax.vmap(steps, (None, 0, 0, 0, None)))
    once_each = exact(jax.vmap(jax.grad(mean_loss), (None, 0, 0)))

    def together(clients: Sequence[Examples]) -> tuple[jax.Array, Labels]:
        return jnp.stack([each.x for each in clients]), np.stack([each.y for each in clients]).astype(np.int32)

    def gradient(weights: Vector, x: Floats, y: Labels | Floats) -> tuple[float, Vector]:
        loss, found = once(weights, x, y)
        return float(loss), found

    def descents(start: Vector, clients: Sequence[Examples], batches: Indices, rate: float) -> list[Vector]:
        return list(of_each(start, *together(clients), batches.astype(np.int32), np.float32(rate)))

    def gradients(weights: Vector, clients: Sequence[Examples]) -> list[Vector]:
        return list(once_each(weights, *together(clients)))

    def descent(start: Vector, x: Floats, y: Labels, batches: Indices, rate: float) -> Vector:
        return descents(start, [Examples(x, y)], batches[None], rate)[0]

    return Classifier(shapes, gradient, forward, descent, descents, gradients, AT_ONCE)
