"""A version in the formats of others says the same as in ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load_file

from nightjar.models import commands as command
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.exchange import exchange
from nightjar.models.folder import write_model_folder
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.wire.errors import UnavailableError
from nightjar.wire.parameters import Vector

tensorflow = pytest.mark.tensorflow


@pytest.fixture
def folder(shape: ModelConfiguration, vocabulary_size: int, weights: Vector, tmp_path: Path) -> Path:
    words = [f"w{number:03}" for number in range(vocabulary_size - FIRST_WORD)]
    vocabulary = Vocabulary.build([" ".join(words)], shape.max_vocabulary)
    assert vocabulary.size == vocabulary_size
    write_model_folder(tmp_path / "model", shape, vocabulary, b"program", weights)
    return tmp_path / "model"


def test_safetensors_hold_each_parameter_under_its_name(
    folder: Path, shape: ModelConfiguration, vocabulary_size: int, weights: Vector, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "model.safetensors"
    assert exchange(folder, "safetensors", out) == out.stat().st_size
    found = load_file(out)
    for name, value in shape.layout(vocabulary_size).unflatten(weights).items():
        np.testing.assert_array_equal(found[name], value)
    with safe_open(out, "numpy") as file:
        assert file.metadata()["configuration"] == "tiny"
        assert file.metadata()["version"] == "0"


def steps(run: Any, shape: ModelConfiguration) -> list[int]:
    """The words that are suggested first after each of a few."""
    h, c = np.zeros((1, shape.embedding), np.float32), np.zeros((1, shape.hidden), np.float32)
    best = []
    for token in (2, 10, 11, 12, 200, 7):
        found = run(token=np.array([token], np.int32), h=h, c=c)
        h, c = np.asarray(found["h"]), np.asarray(found["c"])
        best.append(int(np.argmax(found["scores"])))
    return best


@tensorflow
def test_a_saved_model_and_an_int8_file_suggest_the_same_words(
    folder: Path, shape: ModelConfiguration, tmp_path: Path
) -> None:
    tf = pytest.importorskip("tensorflow", reason="two of the formats need TensorFlow")
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="and a runtime to try one with")
    assert exchange(folder, "saved-model", tmp_path / "saved") > 0
    signature = tf.saved_model.load(str(tmp_path / "saved")).signatures["step"]
    saved = steps(lambda **fed: signature(**{name: tf.constant(value) for name, value in fed.items()}), shape)
    size_bytes = exchange(folder, "tflite", tmp_path / "model.tflite")
    assert size_bytes < (folder / "weights.bin").stat().st_size
    runner = runtime.Interpreter(model_path=str(tmp_path / "model.tflite"), num_threads=1).get_signature_runner()
    small = steps(runner, shape)
    assert sum(a == b for a, b in zip(saved, small, strict=True)) >= 4  # random weights: words nearly tie


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot write"):
        exchange(tmp_path / "none", "safetensors", tmp_path / "x")


def test_the_command_says_what_it_wrote(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    done = CliRunner().invoke(command.main, ["exchange", str(folder), "--to", "safetensors", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output == f"{out}: {out.stat().st_size} bytes\n"
