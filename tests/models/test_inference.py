"""The int8 file that is exported for other runtimes."""

from __future__ import annotations

from models.configurations import ModelConfiguration
from tests.lazily import NEEDS_TENSORFLOW, Lazy
from wire.parameters import Vector

pytestmark = NEEDS_TENSORFLOW
inference = Lazy("models.inference")


def test_it_is_small(shape: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
    assert len(inference.build_inference(weights, shape, vocabulary_size)) < weights.nbytes / 2 + 40_000
