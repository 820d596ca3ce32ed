"""The inference file of a version for other runtimes: its weights in int8 with the one signature that predicts.

The agent's keyboard needs none: it predicts in numpy from the mapped weights (docs/adr/0014). The tied embedding is in
the file twice, once to look words up and once to score them.

Weights are quantized, activations are not (TensorFlow's dynamic range quantization): no text is needed to calibrate it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from models import lstm
from models.configurations import ModelConfiguration
from wire.errors import UnavailableError
from wire.parameters import Vector


class StepModule(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """The one step of a version, its weights constant.

    Args:
        configuration: shape of the model.
        vocabulary_size: V.
        weights: (n,) float32.
    """

    def __init__(self, configuration: ModelConfiguration, vocabulary_size: int, weights: Vector) -> None:
        super().__init__()
        tensors = configuration.layout(vocabulary_size).unflatten(weights)
        self.weights = lstm.Weights(**{name: tf.Variable(value, trainable=False) for name, value in tensors.items()})
        self.step = tf.function(
            self._step,
            input_signature=[
                tf.TensorSpec((1,), tf.int32, name="token"),
                tf.TensorSpec((1, configuration.embedding), tf.float32, name="h"),
                tf.TensorSpec((1, configuration.hidden), tf.float32, name="c"),
            ],
        )

    def _step(self, token: Any, h: Any, c: Any) -> dict[str, Any]:
        scores, h, c = lstm.advance(lstm.Weights(*(w.read_value() for w in self.weights)), token, h, c)
        return {"scores": scores, "h": h, "c": c}


def build_inference(weights: Vector, configuration: ModelConfiguration, vocabulary_size: int) -> bytes:
    """A ``.tflite`` flatbuffer of some weights: token, h, c -> scores, h, c.

    Args:
        weights: (n,) float32.
        configuration: shape of the model.
        vocabulary_size: V.

    Raises:
        UnavailableError: it cannot be converted; the message says why.
    """
    module = StepModule(configuration, vocabulary_size, weights)
    try:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.step.get_concrete_function()], module)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return bytes(converter.convert())
    except Exception as error:  # whatever a converter raises
        first = (str(error).strip() or "no message").splitlines()[0]
        msg = f"{type(error).__name__}: {first[:200]}"
        raise UnavailableError(msg) from error
