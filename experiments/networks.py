"""Small classifiers on flat float32 weights: logistic regression and 2NN in NumPy, LeNet-5 and ResNet-8 in TensorFlow.

A layer's weights lie in the flat vector as ``matrix (in, out), bias (out)``, so that a gradient is written in place.
Loss: mean cross-entropy in nats.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightjar.experiments.data_sets import Examples, Floats, Indices, Labels
from nightjar.wire.parameters import Vector

LENET_5 = ((5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,), (400, 120), (120,), (120, 84), (84,), (84, 10), (10,))
WIDTHS = (16, 32, 64)
"""Channels of ResNet-8's three blocks."""
GROUPS = 8


@dataclass(frozen=True, slots=True)
class Classifier:
    """A classifier.

    Attributes:
        shapes: of its arrays, in the order of the flat vector.
        gradient: (weights (n,), x (b, ...), y (b,)) -> (loss, gradient (n,) float32); a dense network also takes
            probabilities (b, classes) for y.
        scores: (weights (n,), x (b, ...)) -> (b, classes) float32 logits.
        descent: (weights (n,), x (m, ...), y (m,), batches (steps, b) of indices, rate) -> weights after these steps
            of SGD; None where one call a step costs little.
        descents: (weights (n,), P clients with as many examples each, batches (P, steps, b) of indices, rate) -> the
            weights of each; None where they are trained one after the other.
        gradients: (weights (n,), P clients' batches of as many examples each) -> their gradients (P, n); None where
            they are computed one after the other.
        at_once: most examples whose scores are computed at once.
    """

    shapes: Sequence[tuple[int, ...]]
    gradient: Callable[[Vector, Floats, Labels | Floats], tuple[float, Vector]]
    scores: Callable[[Vector, Floats], Floats]
    descent: Callable[[Vector, Floats, Labels, Indices, float], Vector] | None = None
    descents: Callable[[Vector, Sequence[Examples], Indices, float], Sequence[Vector]] | None = None
    gradients: Callable[[Vector, Sequence[Examples]], Sequence[Vector]] | None = None
    at_once: int = 2000

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(math.prod(shape) for shape in self.shapes)

    def start(self, rng: np.random.Generator) -> Vector:
        """Random weights, (n,) float32: He's for matrices; shape (1, c) is a norm's scale, 1."""
        parts = []
        for shape in self.shapes:
            if len(shape) == 1:
                parts.append(np.zeros(shape))
            elif shape[0] == 1:
                parts.append(np.ones(shape))
            else:
                parts.append(rng.normal(0, math.sqrt(2 / math.prod(shape[:-1])), shape))
        return np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def loss(self, weights: Vector, examples: Examples) -> float:
        """Mean cross-entropy, nats."""
        return float(cross_entropy(self._all_scores(weights, examples), examples.y)[0])

    def correct(self, weights: Vector, examples: Examples) -> float:
        """Accuracy, 0 to 1."""
        return float((self._all_scores(weights, examples).argmax(1) == examples.y).mean())

    def _all_scores(self, weights: Vector, examples: Examples) -> Floats:
        cuts = range(0, len(examples), self.at_once)
        return np.concatenate([self.scores(weights, examples.x[cut : cut + self.at_once]) for cut in cuts])


def softmax(scores: Floats) -> Floats:
    """Probabilities of the classes, (b, classes)."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares: Floats = powers / powers.sum(1, keepdims=True)
    return shares


def cross_entropy(scores: Floats, y: Labels | Floats) -> tuple[float, Floats]:
    """Mean loss and its derivative by the scores; y as labels (b,) or as probabilities (b, classes)."""
    shares = softmax(scores)
    if y.ndim == 2:
        return float(-(y * np.log(shares + 1e-30)).sum(1).mean()), (shares - y) / np.float32(len(y))
    rows = np.arange(len(y))
    labels = y.astype(np.int64)
    shifted = scores - scores.max(1, keepdims=True)
    loss = float((np.log(np.exp(shifted).sum(1)) - shifted[rows, labels]).mean())
    shares[rows, labels] -= 1
    return loss, shares / np.float32(len(y))


def arrays_of(flat: Vector, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
    """Views of a flat vector's arrays."""
    ends = itertools.accumulate((math.prod(shape) for shape in shapes), initial=0)
    return [
        flat[begin:end].reshape(shape) for (begin, end), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    ]


def flat_of(arrays: Sequence[Floats]) -> Vector:
    """Inverse of :func:`arrays_of`, (n,)."""
    return np.concatenate([part.ravel() for part in arrays])


def forward(arrays: Sequence[Floats], x: Floats, *, ends: bool = True) -> list[Floats]:
    """What each dense layer is given, and at last what comes out, with ReLU after each layer.

    Args:
        arrays: matrix, bias, matrix, bias and so on, of the network or a part of it.
        x: (b, inputs).
        ends: whether the last layer here is that of the network, which has no ReLU.
    """
    values, last = [x], len(arrays) - 2
    for at in range(0, len(arrays), 2):
        values.append(values[-1] @ arrays[at] + arrays[at + 1])
        if at < last or not ends:
            np.maximum(values[-1], 0, out=values[-1])
    return values


def backward(
    arrays: Sequence[Floats], values: Sequence[Floats], slope: Floats, into: Sequence[Floats], *, ends: bool = True
) -> Floats:
    """Write the gradients of dense layers, and return the slope at the first one's sums ``z``, (b, outputs).

    Times the first matrix transposed is the slope of x, which a whole network does not need.

    Args:
        arrays: as for :func:`forward`.
        values: its result.
        slope: (b, outputs), of the loss by what came out.
        into: arrays like those of the layers.
        ends: as for :func:`forward`.
    """
    if not ends:
        slope = slope * (values[-1] > 0)
    for at in range(len(arrays) - 2, -1, -2):
        np.matmul(values[at // 2].T, slope, out=into[at])
        slope.sum(0, out=into[at + 1])
        if at:
            slope = (slope @ arrays[at].T) * (values[at // 2] > 0)
    return slope


def stepped(
    arrays: Sequence[Floats], values: Sequence[Floats], slope: Floats, rate: float, *, ends: bool = True
) -> tuple[list[Floats], Floats]:
    """Layers after a step of SGD, and the slope (b, inputs) by what they were given; arguments as before."""
    gradients = [np.empty_like(part) for part in arrays]
    first = backward(arrays, values, slope, gradients, ends=ends)
    moved = [part - np.float32(rate) * of for part, of in zip(arrays, gradients, strict=True)]
    return moved, first @ arrays[0].T


def dense(*sizes: int) -> Classifier:
    """Layers of these sizes with ReLU between them; two sizes are logistic regression."""
    shapes = [shape for into, out in itertools.pairwise(sizes) for shape in ((into, out), (out,))]

    def gradient(weights: Vector, x: Floats, y: Labels | Floats) -> tuple[float, Vector]:
        arrays = arrays_of(weights, shapes)
        values = forward(arrays, x)
        loss, slope = cross_entropy(values[-1], y)
        result = np.empty(weights.size, np.float32)
        backward(arrays, values, slope, arrays_of(result, shapes))
        return loss, result

    return Classifier(shapes, gradient, lambda weights, x: forward(arrays_of(weights, shapes), x)[-1])


def two_nn() -> Classifier:
    """The thesis' 2NN: 784, 128, 64, 10."""
    return dense(784, 128, 64, 10)


@functools.cache
def lenet_5() -> Classifier:
    """LeNet-5 of ReLU and maximum pooling on x (b, 784): 61,706 weights."""

    def scores(tf: Any, arrays: list[Any], x: Any) -> Any:
        h = tf.reshape(x, (-1, 28, 28, 1))
        # Bias and ReLU after the pool, which gives the same for a quarter of the work
        h = tf.nn.relu(tf.nn.max_pool2d(tf.nn.conv2d(h, arrays[0], 1, "SAME"), 2, 2, "VALID") + arrays[1])
        h = tf.nn.relu(tf.nn.max_pool2d(tf.nn.conv2d(h, arrays[2], 1, "VALID"), 2, 2, "VALID") + arrays[3])
        h = tf.reshape(h, (-1, 400))
        h = tf.nn.relu(h @ arrays[4] + arrays[5])
        h = tf.nn.relu(h @ arrays[6] + arrays[7])
        return h @ arrays[8] + arrays[9]

    return _in_tensorflow(LENET_5, (784,), scores)


@functools.cache
def resnet_8() -> Classifier:
    """ResNet-8 on x (b, 32, 32, 3): group norm instead of batch norm, whose statistics differ from client to client."""
    shapes: list[tuple[int, ...]] = [(3, 3, 3, 16), (1, 16), (16,)]
    for before, width in zip((16, *WIDTHS), WIDTHS, strict=False):
        shapes += [(3, 3, before, width), (1, width), (width,), (3, 3, width, width), (1, width), (width,)]
        if before != width:
            shapes.append((before, width))
    shapes += [(64, 10), (10,)]

    def scores(tf: Any, arrays: list[Any], x: Any) -> Any:
        taken = iter(arrays)

        def block(h: Any, stride: int) -> Any:
            h = tf.nn.conv2d(h, next(taken), stride, "SAME")
            side, width = h.shape[1], h.shape[3]
            grouped = tf.reshape(h, (-1, side, side, GROUPS, width // GROUPS))
            mean, variance = tf.nn.moments(grouped, (1, 2, 4), keepdims=True)
            h = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + 1e-5), (-1, side, side, width))
            return h * next(taken) + next(taken)

        h = tf.nn.relu(block(x, 1))
        for before, width in zip((16, *WIDTHS), WIDTHS, strict=False):
            stride = 1 if before == width else 2
            inside = block(tf.nn.relu(block(h, stride)), 1)
            short = h if stride == 1 else h[:, ::2, ::2] @ next(taken)
            h = tf.nn.relu(inside + short)
        h = tf.reduce_mean(h, (1, 2))
        return h @ next(taken) + next(taken)

    return _in_tensorflow(shapes, (32, 32, 3), scores)


def _in_tensorflow(
    shapes: Sequence[tuple[int, ...]], form: tuple[int, ...], score: Callable[[Any, list[Any], Any], Any]
) -> Classifier:
    import tensorflow as tf

    sizes = [math.prod(shape) for shape in shapes]
    taken = [
        tf.TensorSpec([sum(sizes)], tf.float32),
        tf.TensorSpec([None, *form], tf.float32),
        tf.TensorSpec([None], tf.int64),
    ]

    def scored(weights: Any, x: Any) -> Any:
        parts = zip(tf.split(weights, sizes), shapes, strict=True)
        return score(tf, [tf.reshape(part, shape) for part, shape in parts], x)

    def slope(weights: Any, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scored(weights, x)))
        return loss, tape.gradient(loss, weights)

    def steps(weights: Any, x: Any, y: Any, batches: Any, rate: Any) -> Any:
        for batch in batches:
            weights -= rate * slope(weights, tf.gather(x, batch), tf.gather(y, batch))[1]
        return weights

    forward = tf.function(scored, input_signature=taken[:2])
    once = tf.function(slope, input_signature=taken)
    several = [*taken, tf.TensorSpec([None, None], tf.int64), tf.TensorSpec([], tf.float32)]
    all_steps = tf.function(steps, input_signature=several)

    def gradient(weights: Vector, x: Floats, y: Labels | Floats) -> tuple[float, Vector]:
        loss, found = once(weights, x, y)
        return float(loss), found.numpy()

    def descent(weights: Vector, x: Floats, y: Labels, batches: Indices, rate: float) -> Vector:
        found: Vector = all_steps(weights, x, y, batches, rate).numpy()
        return found

    return Classifier(shapes, gradient, lambda weights, x: forward(weights, x).numpy(), descent)
