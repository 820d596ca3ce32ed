"""The int8 file that is exported for other runtimes."""

from __future__ import annotations

import numpy as np
import pytest

from models.configurations import ModelConfiguration
from wire.errors import UnavailableError
from wire.parameters import Vector

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow", reason="an inference file needs TensorFlow")

from models.inference import build_inference  # noqa: E402 - after the skip


def test_it_is_small(shape: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
    assert len(build_inference(weights, shape, vocabulary_size)) < weights.nbytes / 2 + 40_000


def test_weights_that_are_not_finite_make_no_file(
    shape: ModelConfiguration, vocabulary_size: int, weights: Vector
) -> None:
    with pytest.raises(UnavailableError):
        build_inference(np.full_like(weights, np.nan), shape, vocabulary_size)
