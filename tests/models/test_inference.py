"""The int8 file that is exported for other runtimes."""

from __future__ import annotations

import pytest

from models.configurations import ModelConfiguration
from wire.parameters import Vector

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow", reason="an inference file needs TensorFlow")

from models.inference import build_inference  # noqa: E402 - after the skip


def test_it_is_small(shape: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
    assert len(build_inference(weights, shape, vocabulary_size)) < weights.nbytes / 2 + 40_000
