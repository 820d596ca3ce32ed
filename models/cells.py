"""The recurrent cells of the keyboard model as TensorFlow graphs: one step forwards, and the slopes for the way back.

A cell reads ``x``, the projected word with its bias, and ``r``, the projected state h' before; it changes the cell's
state c' to c, and gives m, which :mod:`nightjar.models.lstm` projects to the next h. ``z = x + r`` in the columns of a
gate::

    cifg   f, o    = sigmoid(z)   g = tanh(z)                  c = f * c' + (1 - f) * g   m = o * tanh(c)
    lstm   f, o, i = sigmoid(z)   g = tanh(z)                  c = f * c' + i * g         m = o * tanh(c)
    gru    f, s    = sigmoid(z)   g = tanh(x + s * (r + b))    c = f * c' + (1 - f) * g   m = c

Sources: the LSTM of Gers et al. 2000; with coupled gates Greff et al. 2017; the GRU of Cho et al. 2014 with the reset
after the product, as in cuDNN, and with its own bias b there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from nightjar.models.configurations import CellName

Tensor = Any
"""A ``tf.Tensor``: TensorFlow's types cannot be checked."""


class Step(NamedTuple):
    """One step of a cell; tensors of shape (B, H)."""

    cell: Tensor  # c
    gated: Tensor  # m
    kept: tuple[Tensor, ...]  # what the slopes are made of


class Slopes(NamedTuple):
    """Derivatives that do not depend on later steps; tensors of shape (N, H)."""

    cell_by_gated: Tensor | None  # dm/dc; None where m is c
    gates: tuple[Tensor, ...]  # dc/dz of each gate in the order of the columns; dm/dz of the output gate
    forget: Tensor  # dc/dc'
    reset: Tensor | None = None  # how much of the last gate's slope goes to r; None: all


class Cell(NamedTuple):
    """A cell.

    Attributes:
        step: ``x`` (B, G), ``r`` (B, G) or None for zero, c' (B, H), and b (H,) or None.
        slopes: takes what ``step`` kept, joined over time, (N, H) each.
        output: number of the gate that acts on m instead of c; None if there is none.
    """

    step: Callable[[Tensor, Tensor | None, Tensor, Tensor | None], Step]
    slopes: Callable[..., Slopes]
    output: int | None


def _cifg(x: Tensor, r: Tensor | None, c: Tensor, _bias: Tensor | None) -> Step:
    hidden = c.shape[1]
    z = x if r is None else x + r
    forget, output = tf.split(tf.sigmoid(z[:, : 2 * hidden]), 2, axis=1)
    candidate = tf.tanh(z[:, 2 * hidden :])
    difference = c - candidate
    c = candidate + forget * difference
    tanh_cell = tf.tanh(c)
    gated = output * tanh_cell
    return Step(c, gated, (forget, output, candidate, difference, tanh_cell, gated))


def _cifg_slopes(
    forget: Tensor, output: Tensor, candidate: Tensor, difference: Tensor, tanh_cell: Tensor, gated: Tensor
) -> Slopes:
    not_forget = 1.0 - forget
    return Slopes(
        cell_by_gated=output - gated * tanh_cell,  # o (1 - tanh(c)^2)
        gates=(
            difference * forget * not_forget,  # (c' - g) f (1 - f)
            gated - gated * output,  # tanh(c) o (1 - o)
            not_forget - not_forget * (candidate * candidate),  # (1 - f) (1 - g^2)
        ),
        forget=forget,
    )


def _lstm(x: Tensor, r: Tensor | None, c: Tensor, _bias: Tensor | None) -> Step:
    hidden = c.shape[1]
    z = x if r is None else x + r
    forget, output, write = tf.split(tf.sigmoid(z[:, : 3 * hidden]), 3, axis=1)
    candidate = tf.tanh(z[:, 3 * hidden :])
    remembered, written = forget * c, write * candidate
    c = remembered + written
    tanh_cell = tf.tanh(c)
    gated = output * tanh_cell
    return Step(c, gated, (forget, output, write, candidate, remembered, written, tanh_cell, gated))


def _lstm_slopes(
    forget: Tensor,
    output: Tensor,
    write: Tensor,
    candidate: Tensor,
    remembered: Tensor,
    written: Tensor,
    tanh_cell: Tensor,
    gated: Tensor,
) -> Slopes:
    return Slopes(
        cell_by_gated=output - gated * tanh_cell,
        gates=(
            remembered - remembered * forget,  # c' f (1 - f)
            gated - gated * output,
            written - written * write,  # g i (1 - i)
            write - written * candidate,  # i (1 - g^2)
        ),
        forget=forget,
    )


def _gru(x: Tensor, r: Tensor | None, c: Tensor, bias: Tensor | None) -> Step:
    hidden = c.shape[1]
    z, inner = x[:, : 2 * hidden], tf.zeros_like(c) + bias
    if r is not None:
        z, inner = z + r[:, : 2 * hidden], r[:, 2 * hidden :] + bias
    forget, reset = tf.split(tf.sigmoid(z), 2, axis=1)
    candidate = tf.tanh(x[:, 2 * hidden :] + reset * inner)
    difference = c - candidate
    c = candidate + forget * difference
    return Step(c, c, (forget, reset, candidate, difference, inner, c))


def _gru_slopes(
    forget: Tensor, reset: Tensor, candidate: Tensor, difference: Tensor, inner: Tensor, _gated: Tensor
) -> Slopes:
    not_forget = 1.0 - forget
    by_candidate = not_forget - not_forget * (candidate * candidate)
    return Slopes(
        cell_by_gated=None,
        gates=(
            difference * forget * not_forget,
            by_candidate * inner * (reset - reset * reset),
            by_candidate,
        ),
        forget=forget,
        reset=reset,
    )


CELLS: dict[CellName, Cell] = {
    "cifg": Cell(_cifg, _cifg_slopes, output=1),
    "lstm": Cell(_lstm, _lstm_slopes, output=1),
    "gru": Cell(_gru, _gru_slopes, output=None),
}
