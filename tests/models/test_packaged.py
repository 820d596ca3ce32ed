import hashlib

import numpy as np
import pytest
from msgspec.structs import replace

from nightjar.models.batches import pack
from nightjar.models.configurations import configuration
from nightjar.models.initial import initial_weights
from nightjar.models.keyboard import KeyboardTask
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.packaged import PACKAGED, PROGRAMS, packaged_file, packaged_program, program_for
from nightjar.models.padding import cleared, cropped, cropped_layout, padded, word_ids
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import RemoteProtocolError

WORDS = 60
VOCABULARY = Vocabulary(tuple(f"word{number}" for number in range(WORDS)))


def manifest_of(program, **changes):
    shape = configuration(program.configuration)
    fields = {
        "version": 0,
        "configuration": shape.name,
        "program": Artifact(program.sha256, 1),
        "weights": Artifact("0" * 64, 1),
        "vocabulary": Artifact("1" * 64, 1),
        "layout": shape.layout(program.rows),
        "batch_rows": shape.batch_rows,
        "sequence_length": shape.sequence_length,
        "hidden": shape.hidden,
        "minimum_agent_version": "0.1.0",
    }
    return Manifest(**(fields | changes))


@pytest.mark.parametrize("program", PACKAGED, ids=lambda each: each.file_name)
def test_the_files_are_those_that_devices_know(program):
    data = packaged_file(program)
    assert hashlib.sha256(data).hexdigest() == program.sha256
    assert len(data) < 400_000
    assert packaged_program(manifest_of(program)) == program


def test_no_other_file_is_packaged():
    assert {path.name for path in PROGRAMS.iterdir()} == {each.file_name for each in PACKAGED}


@pytest.mark.parametrize("name", ["tiny", "gboard"])
def test_a_full_vocabulary_needs_no_padding_and_every_smaller_one_fits(name):
    shape = configuration(name)
    full = program_for(shape, shape.max_vocabulary)
    assert (full.rows, full.padded) == (shape.max_vocabulary, False)
    for size in (5, 499, 500, 501, shape.max_vocabulary - 1):
        found = program_for(shape, size)
        assert found.padded
        assert found.rows >= size


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": configuration("tiny").layout(499)},
        {"layout": configuration("tiny-gru").layout(500)},
        {"batch_rows": 1},
        {"sequence_length": 21},
        {"hidden": 127},
        {"task_type": "classification"},
        {"inputs": (3,)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_packaged_program_is_for_its_own_model_only(changes):
    with pytest.raises(RemoteProtocolError, match="another model") as refused:
        packaged_program(manifest_of(PACKAGED[0], **changes))
    assert refused.value.code == "unsigned-program"


def test_only_a_padded_program_takes_a_smaller_vocabulary():
    kind = KeyboardTask()
    kind.check(manifest_of(PACKAGED[0]), VOCABULARY.to_bytes())
    full = next(each for each in PACKAGED if not each.padded)
    with pytest.raises(RemoteProtocolError, match="word ids"):
        kind.check(manifest_of(full), VOCABULARY.to_bytes())
    with pytest.raises(RemoteProtocolError, match="word ids"):
        kind.check(replace(manifest_of(PACKAGED[0]), program=Artifact("2" * 64, 1)), VOCABULARY.to_bytes())
    larger = Vocabulary(tuple(f"word{number}" for number in range(497)))
    with pytest.raises(RemoteProtocolError, match="word ids"):
        kind.check(manifest_of(PACKAGED[0]), larger.to_bytes())


def test_padding_is_undone_and_cleared():
    shape, size = configuration("tiny"), VOCABULARY.size
    layout, weights = shape.layout(500), initial_weights(shape, size, 1)
    assert word_ids(VOCABULARY.to_bytes()) == size
    assert cropped_layout(layout, size) == shape.layout(size)
    wide = padded(weights, layout, size)
    assert wide.shape == (layout.size,)
    assert np.array_equal(cropped(wide, layout, size), weights)
    assert cleared(wide, layout, size) is wide
    assert np.array_equal(cleared(wide + np.float32(1), layout, size), padded(weights + np.float32(1), layout, size))
    assert cropped(weights, shape.layout(size), size) is weights


@pytest.mark.tflite
@pytest.mark.parametrize("name", ["tiny-500-padded.tflite", "gboard-5000-padded.tflite"])
def test_padded_rows_never_change_and_change_nothing(name):
    """A padded program computes what the same model without padding does, by the numpy that suggests words."""
    from nightjar.edge_agent.core.prediction import score, weights_of
    from nightjar.edge_agent.shell.tflite import TfliteProgram

    program = next(each for each in PACKAGED if each.file_name == name)
    shape, size = configuration(program.configuration), VOCABULARY.size
    layout, weights = shape.layout(program.rows), initial_weights(shape, size, 1)
    generator = np.random.default_rng(0)
    messages = [generator.integers(4, size, 8).tolist() for _ in range(40)]
    x, y = next(iter(pack(messages, shape.batch_rows, shape.sequence_length)))
    loaded = TfliteProgram(packaged_file(program), padded(weights, layout, size), layout, word_ids=size)
    narrow = score(weights_of(weights, shape.layout(size)), x, y)
    first = loaded.train(x, y, 0.5, 1.0)
    assert first.loss == pytest.approx(narrow.loss_sum / narrow.targets, rel=1e-5)
    loaded.begin()
    loaded.train_momentum(x, y, 0.5, 1.0, 0.9, 0.1)
    delta = loaded.delta()
    embedding = layout.tensors[0].size
    assert not delta[size * shape.embedding : embedding].any()
    assert np.abs(delta).max() > 0
    assert loaded.evaluate(x, y).loss_sum < narrow.loss_sum
    loaded.restore(np.ones(layout.size, np.float32))  # a coordinator that fills the padding
    assert not loaded.save()[size * shape.embedding : embedding].any()


def test_a_manifest_that_gives_the_program_another_hash_names_no_packaged_program():
    manifest = manifest_of(PACKAGED[0])
    assert packaged_program(replace(manifest, program=Artifact("3" * 64, 1))) is None
