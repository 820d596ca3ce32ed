"""The gradient written by hand against TensorFlow's own, and the rules of the recall metric by hand-made cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nightjar.models.batches import Batches, pack
from nightjar.models.configurations import CELL_NAMES, ModelConfiguration
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import BOS, EOS, OOV, PAD
from nightjar.wire.parameters import ParameterLayout, Vector
from tests.lazily import NEEDS_TENSORFLOW, Lazy

pytestmark = NEEDS_TENSORFLOW
tf, lstm, reference = Lazy("tensorflow"), Lazy("nightjar.models.lstm"), Lazy("nightjar.benchmarks.reference_model")

SMALL = ModelConfiguration("small", max_vocabulary=30, embedding=6, hidden=9, batch_rows=3, sequence_length=8)
V = 30

each_cell = pytest.mark.parametrize("small", [replace(SMALL, cell=cell) for cell in CELL_NAMES], ids=CELL_NAMES)


def as_tensors(layout: ParameterLayout, weights: Vector) -> Any:
    return lstm.LstmTensors(**{name: tf.constant(value) for name, value in layout.unflatten(weights).items()})


def lively(shape: ModelConfiguration = SMALL) -> Vector:
    """Weights large enough that every gate works, and no bias is zero."""
    weights = 3.0 * initial_weights(shape, V, seed=1)
    return weights + np.random.default_rng(2).uniform(-0.2, 0.2, weights.size).astype(np.float32)


def small_batch(seed: int = 0, messages: int = 8) -> Batches:
    generator = np.random.default_rng(seed)
    texts = [generator.integers(OOV, V, generator.integers(1, 5)).tolist() for _ in range(messages)]
    return pack(texts, SMALL.batch_rows, SMALL.sequence_length)


def compare(weights: Vector, shape: ModelConfiguration, size: int, x: Any, y: Any) -> None:
    found = lstm.gradient(as_tensors(shape.layout(size), weights), tf.constant(x), tf.constant(y))
    loss, expected = reference.ReferenceModel(shape, size, weights).gradient(tf.constant(x), tf.constant(y))
    assert float(found.loss) == pytest.approx(float(loss), rel=1e-6)
    for name, slope in expected.items():
        error = np.linalg.norm(getattr(found.weights, name) - slope) / np.linalg.norm(slope)
        assert error < 5e-6, name


@each_cell
def test_gradient_equals_gradient_tape_with_resets_and_padding(small: ModelConfiguration) -> None:
    x, y = next(iter(small_batch()))
    assert (x == PAD).any()
    assert (x[:, 1:] == BOS).any()
    compare(lively(small), small, V, x, y)


@each_cell
def test_gradient_equals_gradient_tape_without_any_reset(small: ModelConfiguration) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.integers(OOV, V, (3, 8)).astype(np.int32) for _ in range(2))
    compare(lively(small), small, V, x, y)


@each_cell
def test_gradient_equals_gradient_tape_with_a_reset_at_every_position(small: ModelConfiguration) -> None:
    x = np.full((3, 8), BOS, np.int32)
    y = np.random.default_rng(3).integers(EOS, V, (3, 8)).astype(np.int32)
    model = as_tensors(small.layout(V), lively(small))
    slopes = lstm.gradient(model, tf.constant(x), tf.constant(y)).weights
    assert not np.any(slopes.recurrent_kernel), "nothing may flow over the beginning of a message"
    _, expected = reference.ReferenceModel(small, V, lively(small)).gradient(tf.constant(x), tf.constant(y))
    for name, slope in expected.items():
        assert np.allclose(getattr(slopes, name), slope, atol=1e-6), name


def test_gradient_equals_gradient_tape_at_the_tiny_size(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    compare(weights, shape, vocabulary_size, batches.x[0], batches.y[0])


@each_cell
def test_messages_in_one_row_do_not_see_each_other(small: ModelConfiguration) -> None:
    """The loss over a packed row is the mean over its messages alone."""
    model = as_tensors(small.layout(V), lively(small))

    def loss_sum(*messages: list[int]) -> float:
        b = pack(messages, 1, SMALL.sequence_length)
        assert len(b) == 1
        return float(lstm.score(model, tf.constant(b.x[0]), tf.constant(b.y[0])).loss_sum)

    assert loss_sum([9, 8, 7], [5, 6]) == pytest.approx(loss_sum([9, 8, 7]) + loss_sum([5, 6]), rel=1e-6)


def test_padding_changes_nothing() -> None:
    model = as_tensors(SMALL.layout(V), lively())
    alone, padded = (pack([[9, 8, 7], [5, 6]], rows, length) for rows, length in ((1, 7), (3, 8)))
    a, b = (lstm.gradient(model, tf.constant(p.x[0]), tf.constant(p.y[0])) for p in (alone, padded))
    for x, y in zip(a.weights, b.weights, strict=True):
        assert np.allclose(x, y, atol=1e-7)


def test_a_batch_without_targets_has_no_gradient() -> None:
    nothing = tf.zeros((3, 8), tf.int32)
    found = lstm.gradient(as_tensors(SMALL.layout(V), lively()), nothing, nothing)
    assert float(found.loss) == float(found.targets) == float(found.hits) == 0
    assert not any(np.any(slope) for slope in found.weights)


def always(logits: npt.NDArray[np.float32]) -> Any:
    """Weights that give every position the given logits: made by biases alone, whatever the inputs are."""
    size = len(logits)
    hidden = size
    # f = 0, o = 1, g = 0.5 in every cell, so m = tanh(0.5); D = V, and the projection scales m to the logits.
    bias = np.concatenate([np.full(hidden, -50.0), np.full(hidden, 50.0), np.full(hidden, np.arctanh(0.5))])
    return lstm.LstmTensors(
        embedding=tf.eye(size),
        input_kernel=tf.zeros((size, 3 * hidden)),
        recurrent_kernel=tf.zeros((size, 3 * hidden)),
        gate_bias=tf.constant(bias, tf.float32),
        projection=tf.linalg.diag(tf.constant(logits, tf.float32) / float(np.tanh(0.5))),
    )


def scores_for(logits: npt.NDArray[np.float32], targets: list[int]) -> Any:
    """Score one row in which every position has the given logits."""
    x = tf.constant([[BOS] * len(targets)], tf.int32)
    return lstm.score(always(logits), x, tf.constant([targets], tf.int32))


def test_specials_are_neither_counted_nor_in_the_way() -> None:
    logits = np.array([9, 9, 9, 9, 3, 2, 1, 0], np.float32)  # all four specials look better than any word
    found = scores_for(logits, [4, 5, 6, 7, EOS, OOV, BOS, PAD])
    assert float(found.targets) == 7
    assert float(found.counted) == 4
    assert float(found.top1) == 1  # only word 4
    assert float(found.top3) == 3  # words 4, 5 and 6


def test_of_words_with_equal_scores_the_lower_id_comes_first() -> None:
    tied = np.array([0, 0, 0, 0, 1, 1, 0, 0], np.float32)
    assert [float(scores_for(tied, [word]).top1) for word in (4, 5)] == [1, 0]
    flat = scores_for(np.zeros(8, np.float32), [4, 5, 6, 7])
    assert (float(flat.top1), float(flat.top3)) == (1, 3)


def test_a_hit_of_a_step_is_the_first_of_the_best_words() -> None:
    tied = always(np.array([0, 0, 0, 0, 0, 1, 1, 0], np.float32))
    x = tf.constant([[BOS]], tf.int32)
    assert [float(lstm.gradient(tied, x, tf.constant([[word]], tf.int32)).hits) for word in (5, 6)] == [1, 0]


def test_weights_that_are_not_numbers_foresee_nothing() -> None:
    found = scores_for(np.full(8, np.nan, np.float32), [4, 5])
    assert (float(found.top1), float(found.top3), float(found.counted)) == (0, 0, 2)


def test_loss_is_over_all_targets_and_all_ids() -> None:
    logits = np.array([0, 0, 0, 0, 1, 0, 0, 0], np.float32)
    p = np.exp(logits) / np.exp(logits).sum()
    found = scores_for(logits, [4, EOS, PAD])
    assert float(found.loss_sum) == pytest.approx(-np.log(p[4]) - np.log(p[EOS]), rel=1e-5)


@each_cell
def test_steps_word_by_word_equal_a_row(small: ModelConfiguration) -> None:
    model = as_tensors(small.layout(V), lively(small))
    row = [BOS, 9, 8, BOS, 7, 6, 5, 4]
    h, c = tf.zeros((1, 6)), tf.zeros((1, 9))
    for i, token in enumerate(row):
        scores, h, c = lstm.advance(model, tf.constant([token]), h, c)
        assert (scores[0, :4] == lstm.NEVER).numpy().all()
        best = int(np.argmax(scores[0]))
        y = np.zeros((1, 8), np.int32)
        y[0, i] = best
        assert float(lstm.score(model, tf.constant([row]), tf.constant(y)).top1) == 1
