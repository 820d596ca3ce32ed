"""The forward pass in numpy against the two graphs it must agree with: TensorFlow's, and the program on the runtime."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from nightjar.edge_agent.core.prediction import NEVER, advance, score, weights_of
from nightjar.models.batches import pack
from nightjar.models.configurations import CELL_NAMES, ModelConfiguration
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import BOS, FIRST_WORD, OOV, PAD
from nightjar.wire.errors import LocalProtocolError

SHAPE = ModelConfiguration("small", max_vocabulary=40, embedding=6, hidden=9, batch_rows=3, sequence_length=8)
LAYOUT = SHAPE.layout(40)


@pytest.fixture
def vector():
    return 3 * initial_weights(SHAPE, 40, seed=1)


@pytest.fixture
def batch():
    generator = np.random.default_rng(2)
    messages = [generator.integers(OOV, 40, length).tolist() for length in (3, 5, 2, 9, 1)]
    batches = pack(messages, SHAPE.batch_rows, SHAPE.sequence_length)
    return batches.x[0], batches.y[0]


def state():
    return np.zeros(SHAPE.embedding, np.float32), np.zeros(SHAPE.hidden, np.float32)


def test_weights_are_views_and_another_length_is_refused(vector):
    weights = weights_of(vector, LAYOUT)
    assert all(np.shares_memory(part, vector) for part in weights)
    with pytest.raises(LocalProtocolError):
        weights_of(vector[:-1], LAYOUT)


def test_specials_are_never_the_best_and_a_beginning_forgets(vector):
    weights = weights_of(vector, LAYOUT)
    fresh, h, c = advance(weights, BOS, *state())
    assert (fresh[:FIRST_WORD] == NEVER).all()
    _, h, c = advance(weights, 7, h, c)
    np.testing.assert_array_equal(advance(weights, BOS, h, c)[0], fresh)


def test_a_step_changes_nothing_that_it_was_given(vector):
    weights = weights_of(vector, LAYOUT)
    _, h, c = advance(weights, BOS, *state())
    kept = h.copy(), c.copy()
    advance(weights, 9, h, c)
    np.testing.assert_array_equal(kept[0], h)
    np.testing.assert_array_equal(kept[1], c)


def test_scoring_a_batch_is_reading_its_words_one_by_one(vector):
    weights = weights_of(vector, LAYOUT)
    message = [5, 17, OOV, 30, 8]
    batches = pack([message], 1, SHAPE.sequence_length)
    h, c = state()
    top1 = top3 = 0
    for token, target in zip([BOS, *message], message, strict=False):
        scores, h, c = advance(weights, token, h, c)
        best = np.argsort(-scores)[:3].tolist()
        top1 += target >= FIRST_WORD and best[0] == target
        top3 += target in best
    said = score(weights, batches.x[0], batches.y[0])
    assert (said.targets, said.counted, said.top1, said.top3) == (6, 4, top1, top3)


def test_a_batch_of_padding_scores_nothing(vector):
    padding = np.full((3, 8), PAD, np.int32)
    said = score(weights_of(vector, LAYOUT), padding, padding)
    assert (said.loss_sum, said.targets, said.counted) == (0.0, 0.0, 0.0)


def test_values_that_are_not_numbers_foresee_nothing(vector, batch):
    said = score(weights_of(np.full_like(vector, np.nan), LAYOUT), *batch)
    assert np.isnan(said.loss_sum)
    assert (said.top1, said.top3) == (0.0, 0.0)


@pytest.mark.tensorflow
@pytest.mark.parametrize("cell", CELL_NAMES)
def test_it_counts_as_tensorflow_does(cell, batch):
    import tensorflow as tf

    from nightjar.models import lstm

    shape = replace(SHAPE, cell=cell)
    layout = shape.layout(40)
    vector = 3 * initial_weights(shape, 40, seed=1) + np.linspace(-0.2, 0.2, layout.size, dtype=np.float32)
    graph = lstm.LstmTensors(**{name: tf.constant(value) for name, value in layout.unflatten(vector).items()})
    theirs = lstm.score(graph, tf.constant(batch[0]), tf.constant(batch[1]))
    ours = score(weights_of(vector, layout), *batch)
    assert ours.loss_sum == pytest.approx(float(theirs.loss_sum), rel=1e-5)
    assert (ours.targets, ours.counted, ours.top1, ours.top3) == tuple(
        float(value) for value in (theirs.targets, theirs.counted, theirs.top1, theirs.top3)
    )


@pytest.mark.tflite
def test_it_predicts_as_the_program_on_the_runtime_does(exported):
    from nightjar.edge_agent.shell.tflite import RUNTIMES, runtime_name
    from nightjar.edge_agent.shell.weights import mapped_weights

    module = next(module for module, distribution in RUNTIMES if runtime_name().startswith(distribution))
    interpreter = importlib.import_module(f"{module}.interpreter").Interpreter(model_path=str(exported.model.program))
    vector, manifest = mapped_weights(exported.model), exported.model.manifest
    weights = weights_of(vector, manifest.layout)
    interpreter.get_signature_runner("restore")(weights=vector)
    step = interpreter.get_signature_runner("step")
    h, c = np.zeros(manifest.embedding, np.float32), np.zeros(manifest.hidden, np.float32)
    theirs = {"h": h[None], "c": c[None]}
    for token in (BOS, 9, 5, FIRST_WORD, OOV, BOS, 12):
        scores, h, c = advance(weights, token, h, c)
        theirs = step(token=np.array([token], np.int32), h=theirs["h"], c=theirs["c"])
        rows = theirs["scores"][0] > -1e8  # the others are padding, which the program gives the lowest score
        np.testing.assert_allclose(scores[rows], theirs["scores"][0][rows], atol=1e-5)
