"""A small network of dense layers in numpy, and its training by hand: for protocols that cut or encrypt it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class Layer(NamedTuple):
    """``x @ weights + bias``, with weights (inputs, outputs) and bias (outputs,), float32."""

    weights: Matrix
    bias: Matrix


Layers = list[Layer]


class Examples(NamedTuple):
    """Inputs (n, inputs) float32 and labels (n,)."""

    x: Matrix
    y: Labels


def new_layers(widths: Sequence[int], rng: np.random.Generator) -> Layers:
    """Layers from each width to the next, drawn as He et al. 2015 do."""
    return [
        Layer(rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32), np.zeros(b, np.float32))
        for a, b in pairwise(widths)
    ]


def forward(layers: Layers, x: Matrix, *, ends: bool = True) -> list[Matrix]:
    """What each layer is given, and at last what comes out, with ReLU after each layer.

    Args:
        layers: of the network, or a part of it.
        x: (n, inputs).
        ends: whether the last layer here is that of the network, which has no ReLU.
    """
    values = [x]
    for number, layer in enumerate(layers, 1):
        z = values[-1] @ layer.weights + layer.bias
        values.append(z if ends and number == len(layers) else np.maximum(z, 0))
    return values


def backward(layers: Layers, values: list[Matrix], slope: Matrix, *, ends: bool = True) -> tuple[Layers, Matrix]:
    """Gradients of the layers, and the slope (n, inputs) of what they were given.

    Args:
        layers: as for :func:`forward`.
        values: its result.
        slope: (n, outputs), of the loss by what came out.
        ends: as for :func:`forward`.
    """
    gradients: Layers = []
    for number in reversed(range(len(layers))):
        if not (ends and number == len(layers) - 1):
            slope = slope * (values[number + 1] > 0)
        gradients.append(Layer(values[number].T @ slope, slope.sum(axis=0)))
        slope = slope @ layers[number].weights.T
    return gradients[::-1], slope


def slope_of_loss(logits: Matrix, y: Labels) -> Matrix:
    """Slope (n, classes) of the mean cross-entropy."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return np.asarray(p / len(y), np.float32)


def stepped(layers: Layers, gradients: Layers, rate: float) -> Layers:
    """The layers after a step of SGD."""
    return [
        Layer(at.weights - np.float32(rate) * of.weights, at.bias - np.float32(rate) * of.bias)
        for at, of in zip(layers, gradients, strict=True)
    ]


def batches(examples: Examples, size: int, rng: np.random.Generator) -> Iterator[Examples]:
    """One epoch in random order."""
    order = rng.permutation(len(examples.y))
    for begin in range(0, len(order), size):
        chosen = order[begin : begin + size]
        yield Examples(examples.x[chosen], examples.y[chosen])


def trained(
    layers: Layers,
    examples: Examples,
    rng: np.random.Generator,
    *,
    epochs: int = 1,
    batch: int = 16,
    rate: float = 0.1,
    pull: float = 0.0,
) -> Layers:
    """The layers after some epochs of SGD, with FedProx's pull to where they began."""
    begin = layers
    for _ in range(epochs):
        for x, y in batches(examples, batch, rng):
            values = forward(layers, x)
            gradients, _ = backward(layers, values, slope_of_loss(values[-1], y))
            if pull:
                layers = mean([layers, begin], [1 - rate * pull, rate * pull])
            layers = stepped(layers, gradients, rate)
    return layers


def accuracy(layers: Layers, examples: Examples) -> float:
    """Share of examples whose label has the largest logit."""
    return float((forward(layers, examples.x)[-1].argmax(axis=1) == examples.y).mean())


def flat(layers: Layers) -> Matrix:
    """All numbers, (n,) float32."""
    return np.concatenate([part.ravel() for layer in layers for part in layer])


def unflat(numbers: Matrix, like: Layers) -> Layers:
    """Inverse of :func:`flat`."""
    ends = np.cumsum([part.size for layer in like for part in layer])[:-1]
    parts = np.split(numbers.astype(np.float32), ends)
    return [
        Layer(parts[2 * number].reshape(layer.weights.shape), parts[2 * number + 1])
        for number, layer in enumerate(like)
    ]


def mean(several: Sequence[Layers], shares: Sequence[float]) -> Layers:
    """The weighted mean of networks: FedAvg's sum of n_k / n W_k."""
    total = np.average([flat(each) for each in several], axis=0, weights=shares)
    return unflat(total, several[0])


def digits(seed: int) -> tuple[Examples, Examples]:
    """The 8 x 8 digits of scikit-learn, values 0 to 1: four fifths to train on, one to test."""
    from sklearn.datasets import load_digits  # takes a second, which the processes of parties need not

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    cut = len(y) * 4 // 5
    train, test = (Examples((x[rows] / 16).astype(np.float32), y[rows]) for rows in (order[:cut], order[cut:]))
    return train, test


def dealt(examples: Examples, devices: int) -> list[Examples]:
    """Examples in turn to devices."""
    return [Examples(examples.x[number::devices], examples.y[number::devices]) for number in range(devices)]
