"""Training steps of the keyboard model in JAX, for a whole cohort at once: on a GPU, the laboratory's fastest way.

The model and the rule are those of the device program (:mod:`nightjar.models.lstm`, ``train_momentum`` of
:mod:`nightjar.models.program`)::

    g = gradient of the mean loss, clipped to a norm
    v = momentum v + g + proximal (w - base)        w = w - rate v

Here JAX differentiates, and its sums have another order, so a step differs from the device's in the last bits of
float32; a test compares them. A batch without targets changes nothing. Products are of full float32 precision: the ten
mantissa bits of TensorFloat-32 are too few.

JAX is optional: docs/laboratory.md says how to install it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from nightjar.models.configurations import CellName
from nightjar.models.vocabulary import BOS, PAD
from nightjar.wire.parameters import ParameterLayout

Tensors = dict[str, jax.Array]
"""The parameters by name, in the shapes of the layout."""


class Hyperparameters(NamedTuple):
    """The hyperparameters of a step; scalars."""

    learning_rate: float
    clip_norm: float
    momentum: float = 0.0
    proximal: float = 0.0


class Steps(NamedTuple):
    """What P devices did in at most S steps each."""

    delta: jax.Array  # (P, n) float32, trained weights minus the weights before
    loss: jax.Array  # (P, S) float32, mean per target before each step, nats
    targets: jax.Array  # (P, S) float32
    gradient_norm: jax.Array  # (P, S) float32, before clipping


class _Loop(NamedTuple):
    """The state between two steps of P devices."""

    weights: Tensors  # (P, ...) each
    velocity: Tensors  # (P, ...) each
    loss: jax.Array  # (S, P), and so are the next two
    targets: jax.Array
    gradient_norm: jax.Array


Train = Callable[[Any, Any, Any, int, Hyperparameters], Steps]
"""(weights (n,), x and y (P, S, B, T) int32, number of steps, rule) -> the steps; compiled once for each shape."""


@functools.lru_cache(maxsize=8)
def compiled(layout: ParameterLayout, cell: CellName) -> Train:
    """The function that trains a cohort of a model with this layout."""

    def train(weights: jax.Array, x: jax.Array, y: jax.Array, steps: jax.Array, rule: Hyperparameters) -> Steps:
        people, most = x.shape[:2]
        begun = {spec.name: weights[start:stop].reshape(spec.shape) for spec, start, stop in layout.spans()}
        of_all = jax.tree.map(lambda tensor: jnp.broadcast_to(tensor, (people, *tensor.shape)), begun)
        step = jax.vmap(functools.partial(_step, cell, rule, begun))

        def advance(number: jax.Array, state: _Loop) -> _Loop:
            trained, velocity, said = step(state.weights, state.velocity, x[:, number], y[:, number])
            told = (kept.at[number].set(new) for kept, new in zip(state[2:], said, strict=True))
            return _Loop(trained, velocity, *told)

        told = (jnp.zeros((most, people)) for _ in range(3))
        with jax.default_matmul_precision("highest"):
            end = jax.lax.fori_loop(0, steps, advance, _Loop(of_all, jax.tree.map(jnp.zeros_like, of_all), *told))
        flat = jnp.concatenate([end.weights[spec.name].reshape(people, -1) for spec in layout.tensors], 1)
        return Steps(flat - weights, *(kept.T for kept in end[2:]))

    return jax.jit(train)


def _step(
    cell: CellName,
    rule: Hyperparameters,
    begun: Tensors,
    weights: Tensors,
    velocity: Tensors,
    x: jax.Array,
    y: jax.Array,
) -> tuple[Tensors, Tensors, tuple[jax.Array, jax.Array, jax.Array]]:
    """One device's step on a batch x, y (B, T): weights, velocity, and loss, targets and norm of the gradient."""
    (loss, targets), slopes = jax.value_and_grad(mean_loss, has_aux=True)(weights, x, y, cell)
    norm = jnp.sqrt(sum(jnp.sum(slope * slope) for slope in slopes.values()))
    share = rule.clip_norm / jnp.maximum(norm, rule.clip_norm)
    trained, moved = {}, {}
    for name, slope in slopes.items():
        pull = rule.proximal * (weights[name] - begun[name])
        velocity_now = rule.momentum * velocity[name] + share * slope + pull
        moved[name] = jnp.where(targets > 0, velocity_now, velocity[name])
        trained[name] = weights[name] - jnp.where(targets > 0, rule.learning_rate, 0.0) * velocity_now
    return trained, moved, (loss, targets, norm)


def mean_loss(weights: Tensors, x: jax.Array, y: jax.Array, cell: CellName) -> tuple[jax.Array, jax.Array]:
    """Mean cross-entropy per target of a batch x, y (B, T) in nats, and the number of targets."""
    embedding, bias = weights["embedding"], weights["gate_bias"]
    gates = weights["input_kernel"].shape[1]
    projected = embedding[x] @ weights["input_kernel"] + bias[:gates]  # (B, T, G)
    keep = (x != BOS).astype(jnp.float32)[..., None]

    def advance(
        state: tuple[jax.Array, jax.Array], now: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        of_word, kept = now
        h, c = (kept * each for each in state)
        c, gated = _cell(cell, of_word, h @ weights["recurrent_kernel"], c, bias[gates:])
        h = gated @ weights["projection"]
        return (h, c), h

    begun = jnp.zeros((len(x), embedding.shape[1])), jnp.zeros((len(x), weights["projection"].shape[0]))
    by_time = jnp.moveaxis(projected, 1, 0), jnp.moveaxis(keep, 1, 0)
    unrolled = jax.default_backend() == "gpu"  # as its speed was measured; XLA compiles it three times as long
    _, states = jax.lax.scan(advance, begun, by_time, unroll=unrolled)
    logits = jnp.moveaxis(states, 0, 1) @ embedding.T  # (B, T, V)
    of_target = jnp.where(jnp.arange(len(embedding)) == y[..., None], logits, 0.0).sum(2)
    mask = (y != PAD).astype(jnp.float32)
    targets = mask.sum()
    losses = jax.nn.logsumexp(logits, 2) - of_target
    return (losses * mask).sum() / jnp.maximum(targets, 1.0), targets


def _cell(
    cell: CellName, x: jax.Array, r: jax.Array, c: jax.Array, recurrent_bias: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One step of a cell of :mod:`nightjar.models.cells`: c and m."""
    if cell == "gru":
        of_word, of_state = jnp.split(x, 3, 1), jnp.split(r, 3, 1)
        forget, reset = (jax.nn.sigmoid(of_word[gate] + of_state[gate]) for gate in (0, 1))
        c = forget * c + (1.0 - forget) * jnp.tanh(of_word[2] + reset * (of_state[2] + recurrent_bias))
        return c, c
    gates = jnp.split(x + r, 4 if cell == "lstm" else 3, 1)
    forget, output = jax.nn.sigmoid(gates[0]), jax.nn.sigmoid(gates[1])
    write = jax.nn.sigmoid(gates[2]) if cell == "lstm" else 1.0 - forget
    c = forget * c + write * jnp.tanh(gates[-1])
    return c, output * jnp.tanh(c)
