"""The shim on a real program: the same tests for both runtimes, whichever is installed."""

import dataclasses
import math

import numpy as np
import pytest

from nightjar.edge_agent.shell.keyboard_model import load_keyboard_model
from nightjar.edge_agent.shell.tflite import load_program, runtime_name
from nightjar.models.keyboard import batches_of
from nightjar.models.vocabulary import BOS, FIRST_WORD, OOV, PAD, Vocabulary
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.parameters import weights_from_bytes

pytestmark = pytest.mark.tflite


@pytest.fixture(scope="module")
def weights(exported):
    return weights_from_bytes(exported.model.weights.read_bytes(), exported.model.manifest.layout)


@pytest.fixture
def program(exported):
    return load_program(exported.model)


@pytest.fixture(scope="module")
def batches(exported):
    generator = np.random.default_rng(5)
    texts = [" ".join(generator.choice(exported.words[:40], 7)) for _ in range(200)]
    manifest = exported.model.manifest
    return batches_of(texts, Vocabulary(tuple(exported.words)), manifest.batch_rows, manifest.sequence_length)


def test_the_runtime_has_a_name():
    assert runtime_name().split()[0] in ("ai-edge-litert", "tflite-runtime")


def test_a_loaded_program_holds_the_weights_and_no_update(program, weights):
    np.testing.assert_array_equal(program.save(), weights)
    assert not program.delta().any()


def test_the_first_loss_of_random_weights_is_near_that_of_guessing(program, batches, exported):
    first = program.train(batches.x[0], batches.y[0], 0.1, 1.0)
    assert first.loss == pytest.approx(math.log(exported.model.manifest.vocabulary_size), rel=0.1)
    assert first.targets == np.count_nonzero(batches.y[0] != PAD)
    assert first.gradient_norm > 0


def test_training_lowers_the_loss_and_the_update_is_the_difference(program, batches, weights):
    losses = [program.train(x, y, 2.0, 1.0).loss for _ in range(5) for x, y in batches]
    assert losses[-1] < losses[0] - 1
    np.testing.assert_allclose(program.delta(), program.save() - weights, atol=1e-6)
    program.reset()
    np.testing.assert_array_equal(program.save(), weights)
    assert not program.delta().any()


def test_weights_that_are_not_finite_are_refused_and_the_ones_before_stay(program, weights):
    bad = weights.copy()
    bad[7] = np.nan
    with pytest.raises(RemoteProtocolError) as fault:
        program.restore(bad)
    assert fault.value.code == "not-finite"
    np.testing.assert_array_equal(program.save(), weights)


def test_same_weights_and_batches_give_the_same_update(exported, batches):
    deltas = []
    for _ in range(2):
        program = load_program(exported.model)
        for x, y in batches:
            program.train(x, y, 0.5, 1.0)
        deltas.append(program.delta())
    np.testing.assert_array_equal(*deltas)


def test_a_batch_of_padding_changes_nothing(program, weights, batches):
    padding = np.full_like(batches.x[0], PAD)
    said = program.train(padding, padding, 1.0, 1.0)
    assert (said.loss, said.targets, said.gradient_norm) == (0.0, 0.0, 0.0)
    np.testing.assert_array_equal(program.save(), weights)


def test_evaluation_counts_words_only(program, batches):
    said = program.evaluate(batches.x[0], batches.y[0])
    assert said.targets == np.count_nonzero(batches.y[0] != PAD)
    assert said.counted == np.count_nonzero(batches.y[0] >= FIRST_WORD)
    assert 0 <= said.top1 <= said.top3 <= said.counted


def test_a_batch_of_another_shape_is_a_fault_and_the_program_goes_on(program, batches):
    with pytest.raises(RemoteProtocolError, match="could not train") as fault:
        program.train(batches.x[0][:3], batches.y[0][:3], 1.0, 1.0)
    assert fault.value.code == "program"
    assert math.isfinite(program.train(batches.x[0], batches.y[0], 0.1, 1.0).loss)


def test_ids_out_of_range_are_a_fault(program, batches):
    wrong = batches.x[0].copy()
    wrong[0, 0] = 10**6
    with pytest.raises(RemoteProtocolError):
        program.train(wrong, batches.y[0], 1.0, 1.0)


@pytest.mark.parametrize("content", [b"", b"not a program", b"\x1c\x00\x00\x00TFL3" + bytes(100)])
def test_a_file_that_is_no_program_is_a_fault(exported, tmp_path, content):
    path = tmp_path / "program.tflite"
    path.write_bytes(content)
    with pytest.raises(RemoteProtocolError) as fault:
        load_program(dataclasses.replace(exported.model, program=path))
    assert fault.value.code == "program"


def test_weights_of_another_size_or_gone_are_a_fault(exported, tmp_path):
    path = tmp_path / "weights.bin"
    with pytest.raises(UnavailableError):
        load_program(dataclasses.replace(exported.model, weights=path))
    path.write_bytes(bytes(16))
    with pytest.raises(RemoteProtocolError):
        load_program(dataclasses.replace(exported.model, weights=path))


def test_the_keyboard_reads_word_by_word(exported):
    model = load_keyboard_model(exported.model)
    assert model.version == exported.model.manifest.version
    scores, first = model.step(BOS, model.start())
    assert scores.shape == (model.vocabulary.size,)
    assert (scores[:OOV] < scores[FIRST_WORD:].min()).all(), "nobody types padding or an end"
    kept = [part.copy() for part in first]
    after_word, _ = model.step(FIRST_WORD, first)
    again, _ = model.step(FIRST_WORD, first)
    np.testing.assert_array_equal(after_word, again)
    for part, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(part, before)
    assert not np.array_equal(after_word, scores)


def test_what_was_said_before_a_message_began_does_not_matter(exported):
    model = load_keyboard_model(exported.model)
    _, said = model.step(FIRST_WORD + 3, model.step(BOS, model.start())[1])
    np.testing.assert_allclose(model.step(BOS, said)[0], model.step(BOS, model.start())[0], atol=1e-6)
