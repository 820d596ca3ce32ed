"""The tiny program, converted once and kept between sessions, and text to feed it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightjar.models.batches import Batches, pack
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.wire.parameters import Vector

VOCABULARY_SIZE = 500


@pytest.fixture(scope="session")
def shape() -> ModelConfiguration:
    return configuration("tiny")


@pytest.fixture(scope="session")
def vocabulary_size() -> int:
    return VOCABULARY_SIZE


@pytest.fixture(scope="session")
def weights(shape: ModelConfiguration) -> Vector:
    return initial_weights(shape, VOCABULARY_SIZE, seed=1)


@pytest.fixture(scope="session")
def batches(shape: ModelConfiguration) -> Batches:
    """A few steps of learnable nonsense: each word suggests the next one, rows hold several messages and padding."""
    generator = np.random.default_rng(0)
    messages = []
    for _ in range(120):
        word = int(generator.integers(FIRST_WORD, VOCABULARY_SIZE))
        message = []
        for _ in range(int(generator.integers(1, 12))):
            message.append(word)
            word = FIRST_WORD + (word * 7 + int(generator.integers(3))) % 40
        messages.append(message)
    return pack(messages, shape.batch_rows, shape.sequence_length)


@pytest.fixture(scope="session")
def export_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kept with pytest's own cache; for one session only where that is switched off."""
    cache = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("programs") if cache is None else cache.mkdir("programs")


@pytest.fixture(scope="session")
def program(shape: ModelConfiguration, export_cache: Path) -> bytes:
    pytest.importorskip("tensorflow", reason="exporting a program needs TensorFlow")
    from nightjar.models.export import export_program

    return export_program(shape, VOCABULARY_SIZE, export_cache)


@pytest.fixture(scope="session")
def load_program() -> Callable[[bytes], dict[str, Any]]:
    """Signature runners of a program by name, in an interpreter of their own."""
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="running a program needs ai-edge-litert")

    def load(data: bytes) -> dict[str, Any]:
        interpreter = runtime.Interpreter(model_content=data, num_threads=1)
        interpreter.allocate_tensors()
        return {name: interpreter.get_signature_runner(name) for name in interpreter.get_signature_list()}

    return load


@pytest.fixture
def signatures(program: bytes, load_program: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    return load_program(program)
