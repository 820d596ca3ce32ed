"""The recurrent keyboard model as a TensorFlow graph: forward pass, loss, and a hand-written gradient.

The gradient is hand-written because TFLite has no automatic differentiation, and because this form converts to
built-in operations only and runs faster on a device than a converted ``tf.GradientTape``. Some unusual forms are there
for the converter; the tests in ``tests/models/test_program.py`` fail without them:

- Every product is ``a @ b`` or ``a^T @ b``, with kernels stored [in, out]: it becomes BATCH_MATMUL with adj_y = False.
  ``a @ b^T`` would become FULLY_CONNECTED with variable weights, which is slower.
- The transposes that the backward pass needs are made once per step and multiplied by ``one``, whose value 1 the
  converter cannot know; otherwise it folds them back into ``a @ b^T``.
- No one-hot matrix: the "minus one at the target" of the softmax gradient and the gradient of the input embedding are
  one scatter.

A cell of :mod:`nightjar.models.cells`, which the shapes of the weights tell, with a recurrent projection (Sak et al.
2014); the state is multiplied by ``keep``, which is 0 where a message begins::

    h', c' = keep * h, keep * c
    c, m   = cell(x Wx + b, h' Wh, c')      h = m P

N = B * T positions in time-major order: position t * B + row. There are no variables, no I/O and no optimizer here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from nightjar.models.cells import CELLS, Cell, Tensor
from nightjar.models.configurations import cell_of
from nightjar.models.vocabulary import BOS, FIRST_WORD, PAD

NEVER = -1e9
"""The logit of ids that must not be suggested: finite, so that a softmax over it stays finite."""


class LstmTensors(NamedTuple):
    """The parameters, in the order of the flat vector (``models.configurations.lstm_layout``).

    G is H for each gate. The bias has G values, or H more: those that a GRU adds to the recurrent product.
    """

    embedding: Tensor  # (V, D)
    input_kernel: Tensor  # (D, G)
    recurrent_kernel: Tensor  # (D, G)
    gate_bias: Tensor  # (G,) or (G + H,)
    projection: Tensor  # (H, D)

    @property
    def cell(self) -> Cell:
        """The cell that has these shapes."""
        hidden = self.projection.shape[0]
        return CELLS[cell_of(hidden, self.input_kernel.shape[1], self.gate_bias.shape[0])]

    @property
    def biases(self) -> tuple[Tensor, Tensor | None]:
        """The bias of the gates (G,), and that of a GRU's recurrent product (H,)."""
        gates = self.input_kernel.shape[1]
        if self.gate_bias.shape[0] == gates:
            return self.gate_bias, None
        return self.gate_bias[:gates], self.gate_bias[gates:]


class Pass(NamedTuple):
    """Values of the forward pass that the backward pass needs."""

    states: Tensor  # (N, D) h of every position
    previous_states: Tensor  # (N, D) h' of every position
    kept: tuple[Tensor, ...]  # (N, H) each: what the cell kept, joined over time; the last is m
    keeps: list[Tensor]  # T of (B, 1) float32


class Gradient(NamedTuple):
    """The gradient of the mean loss of a batch, with its metrics; also of models other than this one."""

    weights: Sequence[Tensor]  # of each parameter, in the order of the layout
    loss: Tensor  # () mean cross-entropy per target, nats
    targets: Tensor  # () float32
    hits: Tensor  # () float32, counted targets that were predicted best


class Scores(NamedTuple):
    """Sums over the targets of a batch; all () float32. Counted targets are words of the vocabulary."""

    loss_sum: Tensor  # nats, over all targets
    targets: Tensor
    counted: Tensor
    top1: Tensor
    top3: Tensor


class Ranks(NamedTuple):
    """Loss of a batch, and the rank of the target at each position."""

    loss_sum: Tensor  # () float32, nats, over all targets
    targets: Tensor  # () float32
    counted: Tensor  # (N,) float32, 1 where the target is a word of the vocabulary
    rank: Tensor  # (N,) float32, number of words ranked before the target


def gradient(weights: LstmTensors, x: Tensor, y: Tensor, *, padded: bool = False) -> Gradient:
    """Forward and backward pass of one batch.

    Inputs x are (B, T) int32, where ``BOS`` resets the state of its row; targets y (B, T) int32, where ``PAD`` is none.
    Without any target the gradient is zero. ``padded`` is whether rows of the embedding that are zero are no words:
    their probability is 0, and so is their gradient.
    """
    steps = x.shape[1]
    inputs, targets = _time_major(x), _time_major(y)
    mask = tf.cast(tf.not_equal(targets, PAD), tf.float32)
    count = tf.reduce_sum(mask)
    one = tf.minimum(count + 1.0, 1.0)
    scale = tf.expand_dims(mask / tf.maximum(count, 1.0), 1)  # (N, 1) weight of each position in the mean

    embedded = tf.gather(weights.embedding, inputs)  # (N, D)
    run = _forward(weights, embedded, inputs, steps)

    logits = tf.matmul(run.states, tf.transpose(weights.embedding) * one)
    probabilities = tf.nn.softmax(logits + _barred(weights.embedding) if padded else logits)  # (N, V)
    of_target = tf.gather_nd(probabilities, _coordinates(targets))
    loss = -tf.reduce_sum(tf.math.log(tf.maximum(of_target, 1e-30)) * mask)
    best = tf.cast(tf.equal(tf.argmax(probabilities, 1, tf.int32), targets), tf.float32)
    hits = tf.reduce_sum(best * tf.cast(targets >= FIRST_WORD, tf.float32))

    # d loss / d logits = scale * (probabilities - one_hot(targets)), in two parts.
    scaled_states = scale * run.states
    d_states = scale * (tf.matmul(probabilities, weights.embedding) - tf.gather(weights.embedding, targets))
    d_softmax = tf.transpose(tf.matmul(scaled_states, probabilities, transpose_a=True))  # (V, D)
    kernels, d_embedded = _backward(weights, embedded, run, d_states, one)
    d_rows = tf.scatter_nd(
        tf.expand_dims(tf.concat([targets, inputs], 0), 1),
        tf.concat([-scaled_states, d_embedded], 0),
        weights.embedding.shape,
    )
    return Gradient(kernels._replace(embedding=d_softmax + d_rows), loss / tf.maximum(count, 1.0), count, hits)


def score(weights: LstmTensors, x: Tensor, y: Tensor, *, padded: bool = False) -> Scores:
    """Loss and recall of one batch; the arguments are those of :func:`ranks`."""
    found = ranks(weights, x, y, padded=padded)
    return Scores(
        loss_sum=found.loss_sum,
        targets=found.targets,
        counted=tf.reduce_sum(found.counted),
        top1=tf.reduce_sum(found.counted * tf.cast(found.rank < 1.0, tf.float32)),
        top3=tf.reduce_sum(found.counted * tf.cast(found.rank < 3.0, tf.float32)),
    )


def ranks(weights: LstmTensors, x: Tensor, y: Tensor, *, padded: bool = False) -> Ranks:
    """Loss of one batch, x and y (B, T) int32, and the rank of each of its targets; ``padded`` as in :func:`gradient`.

    The rank of a target is the number of words with a greater logit, or with the same one and a lower id, as in
    :mod:`nightjar.models.ranking`; NaN counts against the model.
    """
    inputs, targets = _time_major(x), _time_major(y)
    mask = tf.cast(tf.not_equal(targets, PAD), tf.float32)
    counted = tf.cast(targets >= FIRST_WORD, tf.float32)
    one = tf.minimum(tf.reduce_sum(mask) + 1.0, 1.0)
    run = _forward(weights, tf.gather(weights.embedding, inputs), inputs, x.shape[1])

    logits = tf.matmul(run.states, tf.transpose(weights.embedding) * one)  # (N, V)
    if padded:
        logits += _barred(weights.embedding)
    probabilities = tf.nn.softmax(logits)
    at_target = _coordinates(targets)
    loss = -tf.reduce_sum(tf.math.log(tf.maximum(tf.gather_nd(probabilities, at_target), 1e-30)) * mask)

    own, column = tf.expand_dims(tf.gather_nd(logits, at_target), 1), tf.expand_dims(targets, 1)
    tied = tf.logical_and(tf.equal(logits, own), tf.less(tf.range(logits.shape[1]), column))
    before = 1.0 - tf.cast(tf.less_equal(logits, own), tf.float32) + tf.cast(tied, tf.float32)  # (N, V)
    rank = tf.reduce_sum(before, 1) - tf.reduce_sum(before[:, :FIRST_WORD], 1)  # (N,) without the specials
    return Ranks(loss, tf.reduce_sum(mask), counted, rank)


def advance(
    weights: LstmTensors, token: Tensor, h: Tensor, c: Tensor, *, padded: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Read one word, (1,) int32, and score the next one; ``BOS`` resets the state h (1, D) and c (1, H).

    Returns logits (1, V), those of the specials ``NEVER``; the next h; the next c. ``padded`` as in :func:`gradient`.
    """
    keep = tf.expand_dims(tf.cast(tf.not_equal(token, BOS), tf.float32), 1)
    bias, recurrent_bias = weights.biases
    projected = tf.matmul(tf.gather(weights.embedding, token), weights.input_kernel) + bias
    c, gated, _ = weights.cell.step(projected, tf.matmul(keep * h, weights.recurrent_kernel), keep * c, recurrent_bias)
    h = tf.matmul(gated, weights.projection)
    logits = tf.matmul(h, weights.embedding, transpose_b=True)
    if padded:
        logits += _barred(weights.embedding)
    return tf.concat([tf.fill([1, FIRST_WORD], NEVER), logits[:, FIRST_WORD:]], 1), h, c


def _barred(embedding: Tensor) -> Tensor:
    """What is added to the logits, (V,): ``NEVER`` where a row of the embedding (V, D) is zero, else 0."""
    word = tf.cast(tf.reduce_max(tf.abs(embedding), 1) > 0.0, tf.float32)
    return NEVER * (1.0 - word)


def _forward(weights: LstmTensors, embedded: Tensor, inputs: Tensor, steps: int) -> Pass:
    """Run the cell over ``embedded`` (N, D) in T = ``steps`` steps, from the zero state."""
    bias, recurrent_bias = weights.biases
    projected = tf.split(tf.matmul(embedded, weights.input_kernel) + bias, steps, axis=0)
    keeps = tf.split(tf.expand_dims(tf.cast(tf.not_equal(inputs, BOS), tf.float32), 1), steps, axis=0)
    rows = embedded.shape[0] // steps
    h = tf.zeros([rows, weights.projection.shape[1]])
    c = tf.zeros([rows, weights.projection.shape[0]])
    cell = weights.cell
    states, previous, kept = [], [], []
    for t in range(steps):
        recurrent = None
        if t:  # the state before the first step is zero
            h, c = keeps[t] * h, keeps[t] * c
            recurrent = tf.matmul(h, weights.recurrent_kernel)
        previous.append(h)
        c, gated, of_step = cell.step(projected[t], recurrent, c, recurrent_bias)
        h = tf.matmul(gated, weights.projection)
        states.append(h)
        kept.append(of_step)
    joined = tuple(tf.concat(values, 0) for values in zip(*kept, strict=True))
    return Pass(tf.concat(states, 0), tf.concat(previous, 0), joined, keeps)


def _backward(
    weights: LstmTensors, embedded: Tensor, run: Pass, d_states: Tensor, one: Tensor
) -> tuple[LstmTensors, Tensor]:
    """Backpropagation through time of the slopes (N, D) of h that come from the softmax.

    Returns the gradient, with embedding None; and that (N, D) of ``embedded``.
    """
    steps = len(run.keeps)
    projection_t, recurrent_t, input_t = (
        tf.transpose(kernel) * one for kernel in (weights.projection, weights.recurrent_kernel, weights.input_kernel)
    )
    # For all steps at once.
    cell, slopes = weights.cell, weights.cell.slopes(*run.kept)
    by_gated = None if slopes.cell_by_gated is None else tf.split(slopes.cell_by_gated, steps, axis=0)
    gates = [tf.split(slope, steps, axis=0) for slope in slopes.gates]
    forget = tf.split(slopes.forget, steps, axis=0)
    reset = None if slopes.reset is None else tf.split(slopes.reset, steps, axis=0)
    from_softmax = tf.split(d_states, steps, axis=0)
    d_hs: list[Tensor] = [None] * steps
    d_zs: list[Tensor] = [None] * steps
    d_rs: list[Tensor] = [None] * steps
    d_h_later = d_c_later = None
    for t in reversed(range(steps)):
        d_h = from_softmax[t] if d_h_later is None else from_softmax[t] + d_h_later
        d_gated = tf.matmul(d_h, projection_t)
        d_c = d_gated if by_gated is None else d_gated * by_gated[t]
        if d_c_later is not None:
            d_c += d_c_later
        d_gates = [(d_gated if gate == cell.output else d_c) * slope[t] for gate, slope in enumerate(gates)]
        d_z = d_r = tf.concat(d_gates, 1)
        if reset is not None:
            d_r = tf.concat([*d_gates[:-1], d_gates[-1] * reset[t]], 1)
        d_hs[t], d_zs[t], d_rs[t] = d_h, d_z, d_r
        if t:
            d_h_later = run.keeps[t] * tf.matmul(d_r, recurrent_t)
            d_c_later = run.keeps[t] * (d_c * forget[t])
    d_z = tf.concat(d_zs, 0)  # (N, G)
    d_bias = tf.reduce_sum(d_z, 0)
    if reset is None:
        kernels = tf.matmul(tf.concat([embedded, run.previous_states], 1), d_z, transpose_a=True)  # both at once
        d_input, d_recurrent = tf.split(kernels, 2, axis=0)
    else:
        d_r = tf.concat(d_rs, 0)  # (N, G)
        d_input = tf.matmul(embedded, d_z, transpose_a=True)
        d_recurrent = tf.matmul(run.previous_states, d_r, transpose_a=True)
        d_bias = tf.concat([d_bias, tf.reduce_sum(d_r[:, -weights.projection.shape[0] :], 0)], 0)
    d_projection = tf.matmul(run.kept[-1], tf.concat(d_hs, 0), transpose_a=True)
    return LstmTensors(None, d_input, d_recurrent, d_bias, d_projection), tf.matmul(d_z, input_t)


def _time_major(batch: Tensor) -> Tensor:
    """Reshapes (B, T) to (N,), time-major."""
    return tf.reshape(tf.transpose(batch), [batch.shape[0] * batch.shape[1]])


def _coordinates(columns: Tensor) -> Tensor:
    """(N, 2) int32: row number and column of each entry."""
    return tf.stack([tf.range(columns.shape[0]), columns], 1)
