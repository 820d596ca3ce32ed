"""The int8 file beside the weights that it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from models.batches import Batches, pack
from models.configurations import ModelConfiguration
from wire.errors import UnavailableError
from wire.parameters import Vector

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow", reason="an inference file needs TensorFlow")
pytest.importorskip("ai_edge_litert.interpreter", reason="and a runtime to try it with")

from models.inference import build_inference  # noqa: E402 - after the skip
from models.training import train_centrally  # noqa: E402


@pytest.fixture
def trained(shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches) -> Vector:
    return train_centrally(weights, shape, vocabulary_size, batches, steps=60, learning_rate=3.0, clip_norm=1.0)


def test_it_is_small_and_suggests_what_the_weights_suggest(
    shape: ModelConfiguration, vocabulary_size: int, trained: Vector, batches: Batches
) -> None:
    made = build_inference(trained, shape, vocabulary_size, batches)
    assert len(made.file) < trained.nbytes / 2 + 40_000
    assert made.agreement is not None
    assert made.agreement > 0.9
    assert made.step_ms is not None
    assert 0 < made.step_ms < 1000


def test_without_text_there_is_nothing_to_compare(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector
) -> None:
    made = build_inference(weights, shape, vocabulary_size, pack([], shape.batch_rows, shape.sequence_length))
    assert made.file
    assert (made.step_ms, made.agreement) == (None, None)


def test_weights_that_are_not_finite_make_no_file(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector, batches: Batches
) -> None:
    with pytest.raises(UnavailableError):
        build_inference(np.full_like(weights, np.nan), shape, vocabulary_size, batches)
