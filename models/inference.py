"""The inference file of a version for other runtimes: int8 weights and one signature, which predicts.

The agent's keyboard does not use it: it predicts in numpy from memory-mapped weights (docs/adr/0014). The file holds
the tied embedding twice, once for lookup and once for scoring.

Only the weights are quantized (TensorFlow's dynamic range quantization), so no text is needed for calibration.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nightjar.models import lstm
from nightjar.models.configurations import ModelConfiguration
from nightjar.wire.errors import UnavailableError
from nightjar.wire.parameters import Vector


class StepModule(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """The ``step`` signature of a version with constant weights."""

    def __init__(self, configuration: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
        super().__init__()
        tensors = configuration.layout(vocabulary_size).unflatten(weights)
        self.weights = lstm.LstmTensors(
            **{name: tf.Variable(value, trainable=False) for name, value in tensors.items()}
        )
        self.step = tf.function(
            self._step,
            input_signature=[
                tf.TensorSpec((1,), tf.int32, name="token"),
                tf.TensorSpec((1, configuration.embedding), tf.float32, name="h"),
                tf.TensorSpec((1, configuration.hidden), tf.float32, name="c"),
            ],
        )

    def _step(self, token: Any, h: Any, c: Any) -> dict[str, Any]:
        scores, h, c = lstm.advance(lstm.LstmTensors(*(w.read_value() for w in self.weights)), token, h, c)
        return {"scores": scores, "h": h, "c": c}


def build_inference(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int) -> bytes:
    """Build a ``.tflite`` flatbuffer with these weights: token, h, c -> scores, h, c.

    Raises:
        UnavailableError: the conversion failed.
    """
    module = StepModule(configuration, vocabulary_size, weights)
    try:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.step.get_concrete_function()], module)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return bytes(converter.convert())
    except Exception as error:  # the converter may raise anything
        first = (str(error).strip() or "no message").splitlines()[0]
        msg = f"{type(error).__name__}: {first[:200]}"
        raise UnavailableError(msg) from error
