"""Recurrent cells and their gradients by backpropagation through time, by hand in numpy.

With s as the logistic function and ``[h, x]`` side by side (the survey's section 6.10, its misprints corrected)::

    simple  h_t = W_hx x_t + W_hh h_(t-1)                                       no activation
    LSTM    f, i, o = s(W [h, x] + b)    g = tanh(W_c [h, x] + b_c)
            c_t = f c_(t-1) + i g        h_t = o tanh(c_t)
    GRU     r, u = s(W [h, x])           g = tanh(W_h [r h, x])
            h_t = (1 - u) h_(t-1) + u g

The loss is the mean cross-entropy of a softmax over ``h_t W_q``. For batches of sequences: arrays (T, B, ...).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]
CELLS = ("simple", "lstm", "gru")


def new_weights(cell: str, vocabulary: int, embedding: int, hidden: int, rng: np.random.Generator) -> Weights:
    """Weights in float64, uniform by the number of inputs; the forget gate of an LSTM begins open."""
    rows = embedding + hidden
    shapes: dict[str, tuple[int, ...]] = {"embedding": (vocabulary, embedding), "output": (hidden, vocabulary)}
    match cell:
        case "simple":
            shapes["kernel"] = (rows, hidden)
        case "lstm":
            shapes |= {"kernel": (rows, 4 * hidden), "bias": (4 * hidden,)}
        case _:
            shapes |= {"kernel": (rows, 2 * hidden), "candidate": (rows, hidden)}
    made = {name: rng.uniform(-1, 1, shape) / np.sqrt(rows) for name, shape in shapes.items()}
    if cell == "lstm":
        made["bias"] = np.repeat([1.0, 0.0, 0.0, 0.0], hidden)
    return made


class CellStep(NamedTuple):
    """What a step keeps for the way back."""

    joined: Array  # (B, H + D)
    h: Array  # (B, H), before the step
    c: Array  # (B, H), before the step; of an LSTM alone
    gates: tuple[Array, ...]


def loss_and_gradient(cell: str, weights: Weights, x: Array, y: Array) -> tuple[float, Weights]:
    """Mean loss in nats, and its gradient by backpropagation through time.

    Args:
        cell: one of CELLS.
        weights: of :func:`new_weights`.
        x: (T, B) word numbers.
        y: (T, B) the words that follow.
    """
    steps, states, logits = _forward(cell, weights, x)
    p = _softmax(logits)
    places = (np.arange(x.shape[0])[:, None], np.arange(x.shape[1])[None])
    loss = float(-np.log(p[(*places, y)]).mean())
    p[(*places, y)] -= 1
    p /= x.size
    gradient = {name: np.zeros_like(value) for name, value in weights.items()}
    gradient["output"] = np.einsum("tbh,tbv->hv", states, p)
    dh, dc = np.zeros_like(states[0]), np.zeros_like(states[0])
    for t in reversed(range(len(x))):
        dh, dc, dx = _back(cell, weights, gradient, steps[t], dh + p[t] @ weights["output"].T, dc)
        np.add.at(gradient["embedding"], x[t], dx)
    return loss, gradient


def losses(cell: str, weights: Weights, x: Array, y: Array) -> Array:
    """Loss of each word (T, B), nats."""
    _, _, logits = _forward(cell, weights, x)
    p = _softmax(logits)
    return np.asarray(-np.log(p[np.arange(x.shape[0])[:, None], np.arange(x.shape[1])[None], y]))


def _forward(cell: str, weights: Weights, x: Array) -> tuple[list[CellStep], Array, Array]:
    h = np.zeros((x.shape[1], weights["output"].shape[0]), weights["output"].dtype)
    c, steps, states = h, [], []
    for words in x:
        joined = np.concatenate([h, weights["embedding"][words]], axis=1)
        z, before = joined @ weights["kernel"], (joined, h, c)
        match cell:
            case "simple":
                gates: tuple[Array, ...] = ()
                h = z
            case "lstm":
                f, i, o, g = np.split(z + weights["bias"], 4, axis=1)
                f, i, o, g = _logistic(f), _logistic(i), _logistic(o), np.tanh(g)
                c = f * c + i * g
                gates = (f, i, o, g, np.tanh(c))
                h = o * gates[-1]
            case _:
                r, u = np.split(_logistic(z), 2, axis=1)
                reset = np.concatenate([r * h, joined[:, h.shape[1] :]], axis=1)
                g = np.tanh(reset @ weights["candidate"])
                gates = (r, u, g, reset)
                h = (1 - u) * h + u * g
        steps.append(CellStep(*before, gates))
        states.append(h)
    together = np.stack(states)
    return steps, together, together @ weights["output"]


def _back(
    cell: str, weights: Weights, gradient: dict[str, Array], step: CellStep, dh: Array, dc: Array
) -> tuple[Array, Array, Array]:
    """Slopes by the state before a step and by its words; adds to the gradient."""
    hidden = dh.shape[1]
    match cell:
        case "simple":
            dz, before = dh, np.zeros_like(dh)
        case "lstm":
            f, i, o, g, tanh_c = step.gates
            dc = dc + dh * o * (1 - tanh_c**2)
            slopes = (dc * step.c * f * (1 - f), dc * g * i * (1 - i), dh * tanh_c * o * (1 - o), dc * i * (1 - g**2))
            dz, before, dc = np.concatenate(slopes, axis=1), np.zeros_like(dh), dc * f
            gradient["bias"] += dz.sum(axis=0)
        case _:
            r, u, g, reset = step.gates
            dg = dh * u * (1 - g**2)
            gradient["candidate"] += reset.T @ dg
            through = dg @ weights["candidate"].T
            dr, du = through[:, :hidden] * step.h, dh * (g - step.h)
            dz = np.concatenate([dr * r * (1 - r), du * u * (1 - u)], axis=1)
            before = dh * (1 - u) + through[:, :hidden] * r
    gradient["kernel"] += step.joined.T @ dz
    joined = dz @ weights["kernel"].T
    dx = joined[:, hidden:]
    if cell == "gru":
        dx = dx + through[:, hidden:]
    return before + joined[:, :hidden], dc, dx


def _logistic(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-z)))


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def clipped(gradient: Weights, most: float) -> Weights:
    """A gradient, shortened to a norm of at most ``most``: those of recurrent networks explode."""
    norm = np.sqrt(sum(float((each**2).sum()) for each in gradient.values()))
    return {name: each * min(1.0, most / max(norm, 1e-12)) for name, each in gradient.items()}


def moved(weights: Weights, step: Weights, rate: float) -> Weights:
    """``weights + rate * step``."""
    return {name: (value + rate * step[name]).astype(value.dtype) for name, value in weights.items()}
