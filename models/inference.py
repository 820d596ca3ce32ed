"""The inference file of a version: its weights in int8 with the one signature that predicts, and what it is worth.

The agent's keyboard needs none: it predicts in numpy from the mapped weights (docs/adr/0014). The file is for other
runtimes and for export, a quarter of the size of the weights (the tied embedding is in it twice, once to look words up
and once to score them). Built in the process of the caller, because a graph of one step converts in half a second; a
coordinator calls this in its worker, which may die without harm.

Weights are quantized, activations are not (TensorFlow's dynamic range quantization): no text is needed to calibrate it.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import tensorflow as tf

from models import lstm
from models.batches import Batches
from models.configurations import ModelConfiguration
from models.vocabulary import PAD
from wire.errors import UnavailableError
from wire.parameters import Vector

RUNTIME = "ai_edge_litert"
WORDS_TRIED = 400
"""A share of 0.9 is then good to 3 points, and the int8 file reads as many words in a twentieth of a second."""


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


@dataclass(frozen=True, slots=True)
class Inference:
    """An inference file, and what it is worth.

    Attributes:
        file: a ``.tflite`` flatbuffer: token, h, c -> scores, h, c.
        step_ms: median time for one word on this machine, one thread; None without text, or without a runtime.
        agreement: share of held-out words after which it suggests the same word first; None likewise.
    """

    file: bytes
    step_ms: float | None
    agreement: float | None


def build_inference(
    weights: Vector, configuration: ModelConfiguration, vocabulary_size: int, batches: Batches
) -> Inference:
    """Make the inference file of some weights, and compare it with them.

    Args:
        weights: (n,) float32.
        configuration: shape of the model.
        vocabulary_size: V.
        batches: held-out text to compare on.

    Raises:
        UnavailableError: it cannot be converted or run; the message says why.
    """
    module = StepModule(configuration, vocabulary_size, weights)
    try:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([module.step.get_concrete_function()], module)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        file = bytes(converter.convert())
        if find_spec(RUNTIME) is None:  # the package that devices have; a coordinator may do without
            return Inference(file, None, None)
        return Inference(file, *_compared(file, module.weights, batches))
    except Exception as error:  # whatever a converter or a runtime raises
        first = (str(error).strip() or "no message").splitlines()[0]
        msg = f"{type(error).__name__}: {first[:200]}"
        raise UnavailableError(msg) from error


def _compared(file: bytes, weights: lstm.Weights, batches: Batches) -> tuple[float | None, float | None]:
    runner = _runner(file)
    h_shape, c_shape = (1, weights.projection.shape[1]), (1, weights.projection.shape[0])
    same, times_s = [], []
    for x, y in batches:
        best = np.reshape(lstm.best_words(weights, tf.constant(x)), x.T.shape).T  # (B, T)
        for row in range(len(x)):
            h, c = np.zeros(h_shape, np.float32), np.zeros(c_shape, np.float32)
            for place in np.flatnonzero(y[row] != PAD):
                begun_s = time.perf_counter()
                found = runner(token=x[row, place : place + 1], h=h, c=c)
                times_s.append(time.perf_counter() - begun_s)
                h, c = found["h"], found["c"]
                same.append(int(np.argmax(found["scores"])) == best[row, place])
            if len(same) >= WORDS_TRIED:
                return 1e3 * statistics.median(times_s), float(np.mean(same))
    return (1e3 * statistics.median(times_s), float(np.mean(same))) if same else (None, None)


def _runner(file: bytes) -> Any:
    from ai_edge_litert.interpreter import Interpreter  # TensorFlow's own goes with its next release

    return Interpreter(model_content=file, num_threads=1).get_signature_runner()
