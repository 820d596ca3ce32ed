"""The int8 file that is exported for other runtimes."""

from __future__ import annotations

from nightjar.models.configurations import ModelConfiguration
from nightjar.wire.parameters import Vector
from tests.lazily import NEEDS_TENSORFLOW, Lazy

pytestmark = NEEDS_TENSORFLOW
inference = Lazy("nightjar.models.inference")


def test_it_is_small(shape: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
    assert len(inference.build_inference(weights, shape, vocabulary_size)) < weights.nbytes / 2 + 40_000
