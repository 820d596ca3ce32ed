"""The model's forward pass in plain numpy, for the keyboard's suggestions and for local evaluation.

The weights are views of the flat vector, so a memory-mapped file can be used directly: nothing is copied, the pages
belong to the page cache, and the resident part of the agent needs no TFLite runtime. One word costs one matrix-vector
product with the embedding. A 10,000-word model answers faster than the runtime's ``step`` signature, which copies its
variables at every call (docs/adr/0014-numpy-inference.md). Training is done by the TFLite program.

The cells are those of :mod:`nightjar.models.cells`; the tests compare the two, and the sources are cited there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nightjar.edge_agent.core.results import Evaluation
from nightjar.edge_agent.ports import Floats, Ids
from nightjar.models.configurations import cell_of
from nightjar.models.ranking import ranks
from nightjar.models.vocabulary import BOS, FIRST_WORD, PAD
from nightjar.wire.parameters import ParameterLayout, Vector

NEVER = np.float32(-1e9)
"""Score of tokens that must not be suggested."""


class Weights(NamedTuple):
    """Views of the flat vector, in its order; all float32."""

    embedding: Floats  # (V, D)
    input_kernel: Floats  # (D, G)
    recurrent_kernel: Floats  # (D, G)
    gate_bias: Floats  # (G,), of a GRU (G + H,)
    projection: Floats  # (H, D)


def weights_of(vector: Vector, layout: ParameterLayout, word_ids: int | None = None) -> Weights:
    """The tensors of a model from :func:`nightjar.models.configurations.lstm_layout`, whose weights are (n,) float32.

    ``word_ids`` is the size of the vocabulary, whose padded rows (:mod:`nightjar.models.padding`) are left out.

    Raises:
        LocalProtocolError: the vector does not have the length of the layout.
    """
    found = Weights(**layout.unflatten(vector))
    return found._replace(embedding=found.embedding[:word_ids])


def advance(weights: Weights, token: int, h: Floats, c: Floats) -> tuple[Floats, Floats, Floats]:
    """Read one word and score the next one.

    ``h`` (D,) and ``c`` (H,) are the float32 state; the token ``BOS`` resets it.

    Returns:
        Scores (V,) float32 of the next word, with the special tokens at ``NEVER``; the next h; the next c.
    """
    if token == BOS:
        h, c = np.zeros_like(h), np.zeros_like(c)
    h, c = _cell(weights, weights.embedding[token], h, c)
    scores = weights.embedding @ h
    scores[:FIRST_WORD] = NEVER
    return scores, h, c


def score(weights: Weights, x: Ids, y: Ids) -> Evaluation:
    """Loss and recall of one batch, counted as in :func:`nightjar.models.lstm.score`.

    Processes one position of all rows at a time: for a 10,000-word model, the scores of a whole batch take 13 MB, those
    of one position 0.6 MB.

    ``x`` are (B, T) int32 inputs, where ``BOS`` resets the state of its row, and ``y`` the targets, where ``PAD`` is
    none.
    """
    rows = np.arange(len(x))
    h = np.zeros((len(x), weights.projection.shape[1]), np.float32)
    c = np.zeros((len(x), weights.projection.shape[0]), np.float32)
    loss, targets, counted, top1, top3 = 0.0, 0, 0, 0, 0
    # Diverged weights give sums that are not finite; the caller checks for that, so warnings are suppressed.
    with np.errstate(over="ignore", invalid="ignore"):
        for token, target in zip(x.T, y.T, strict=True):
            keep = (token != BOS)[:, None]
            h, c = _cell(weights, weights.embedding[token], h * keep, c * keep)
            wanted = target != PAD
            if not wanted.any():
                continue
            logits = h[wanted] @ weights.embedding.T  # (b, V), b rows with a target
            of_target = logits[rows[: len(logits)], target[wanted]]
            most = logits.max(axis=1)
            loss += float(np.sum(np.log(np.exp(logits - most[:, None]).sum(axis=1)) + most - of_target))
            word = target[wanted] >= FIRST_WORD
            # Of a special token the rank is that of some word, which is not counted.
            rank = ranks(logits[:, FIRST_WORD:], np.maximum(target[wanted] - FIRST_WORD, 0).astype(np.int64))
            targets += int(wanted.sum())
            counted += int(word.sum())
            top1 += int((word & (rank < 1)).sum())
            top3 += int((word & (rank < 3)).sum())
    return Evaluation(loss, float(targets), float(counted), float(top1), float(top3))


def _cell(weights: Weights, embedded: Floats, h: Floats, c: Floats) -> tuple[Floats, Floats]:
    """One time step for any number of rows: embedded (..., D), h (..., D), c (..., H) to the next h and c."""
    hidden, columns = weights.projection.shape[0], weights.input_kernel.shape[1]
    last = columns - hidden  # the candidate has the last columns
    recurrent = h @ weights.recurrent_kernel
    z = embedded @ weights.input_kernel + recurrent + weights.gate_bias[:columns]
    gates = 0.5 + 0.5 * np.tanh(0.5 * z[..., :last])  # the logistic function, without overflow
    forget, second = gates[..., :hidden], gates[..., hidden : 2 * hidden]
    match cell_of(hidden, columns, len(weights.gate_bias)):
        case "cifg":
            candidate = np.tanh(z[..., last:])
            c = candidate + forget * (c - candidate)
            gated = second * np.tanh(c)
        case "lstm":
            c = forget * c + gates[..., 2 * hidden :] * np.tanh(z[..., last:])
            gated = second * np.tanh(c)
        case "gru":
            state = recurrent[..., last:]
            candidate = np.tanh(z[..., last:] - state + second * (state + weights.gate_bias[columns:]))
            c = gated = candidate + forget * (c - candidate)
    return gated @ weights.projection, c
