"""The program artifact: the six signatures that an agent calls, around the graph in ``models.lstm``.

The variables are born zero: weights are an artifact of their own and come by ``restore``. The optimizer is plain SGD
with clipping by global norm.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from models import lstm
from models.configurations import ModelConfiguration
from models.lstm import Tensor, Weights

SIGNATURES = ("train", "evaluate", "step", "save", "restore", "delta")


class Program(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """One model under training.

    Args:
        configuration: shape of the model.
        vocabulary_size: V.
    """

    def __init__(self, configuration: ModelConfiguration, vocabulary_size: int) -> None:
        super().__init__()
        self._layout = configuration.layout(vocabulary_size)
        self._configuration = configuration
        self._weights = [tf.Variable(tf.zeros(spec.shape), name=spec.name) for spec in self._layout.tensors]
        self._anchor = tf.Variable(tf.zeros([self._layout.size]), name="anchor")

    def train(self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor) -> dict[str, Tensor]:
        """One step of SGD on a batch.

        Args:
            x: (B, T) int32 inputs.
            y: (B, T) int32 targets; a batch without targets leaves the weights as they are.
            learning_rate: () float32.
            clip_norm: () float32, the most that the norm of the mean gradient may be.

        Returns:
            loss: () mean per target, before the step; targets: (); hits: () counted targets foreseen;
            gradient_norm: () before clipping.
        """
        weights = self._read()
        found = lstm.gradient(weights, x, y)
        norm = tf.sqrt(tf.add_n([_square_sum(g) for g in found.weights]))
        rate = learning_rate * (clip_norm / tf.maximum(norm, clip_norm))
        for variable, value, slope in zip(self._weights, weights, found.weights, strict=True):
            variable.assign(value - rate * slope)
        return {"loss": found.loss, "targets": found.targets, "hits": found.hits, "gradient_norm": norm}

    def evaluate(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Loss and recall on a batch: the fields of :class:`models.lstm.Scores`."""
        return lstm.score(self._read(), x, y)._asdict()

    def step(self, token: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
        """Read one word; see :func:`models.lstm.advance`."""
        scores, h, c = lstm.advance(self._read(), token, h, c)
        return {"scores": scores, "h": h, "c": c}

    def save(self) -> dict[str, Tensor]:
        """The weights, (n,) float32."""
        return {"weights": _join(self._read())}

    def restore(self, weights: Tensor) -> dict[str, Tensor]:
        """Take weights (n,) float32, from which ``delta`` will be measured."""
        parts = tf.split(weights, [spec.size for spec in self._layout.tensors])
        for variable, part, spec in zip(self._weights, parts, self._layout.tensors, strict=True):
            variable.assign(tf.reshape(part, spec.shape))
        self._anchor.assign(weights)
        return {"ok": tf.constant(1)}

    def delta(self) -> dict[str, Tensor]:
        """How the weights have moved since ``restore``, (n,) float32."""
        return {"delta": _join(self._read()) - self._anchor.read_value()}

    def traced(self, signature: str) -> Any:
        """One of ``SIGNATURES`` as a concrete function for the fixed shapes of this program."""
        shape = self._configuration
        x, y = (tf.TensorSpec((shape.batch_rows, shape.sequence_length), tf.int32, name=name) for name in ("x", "y"))
        specs = {
            "train": [x, y, _float("learning_rate"), _float("clip_norm")],
            "evaluate": [x, y],
            "step": [
                tf.TensorSpec((1,), tf.int32, name="token"),
                _float("h", 1, shape.embedding),
                _float("c", 1, shape.hidden),
            ],
            "restore": [_float("weights", self._layout.size)],
        }
        method = getattr(self, signature)
        return tf.function(method, input_signature=specs.get(signature, [])).get_concrete_function()

    def _read(self) -> Weights:
        """Each variable once: a read is a copy."""
        return Weights(*(variable.read_value() for variable in self._weights))


def _float(name: str, *shape: int) -> Any:
    return tf.TensorSpec(shape, tf.float32, name=name)


def _join(weights: Weights) -> Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in weights], 0)


def _square_sum(tensor: Tensor) -> Tensor:
    """Sum of squares in two stages: TFLite adds a whole tensor in one float, which loses digits over a million."""
    return tf.reduce_sum(tf.reduce_sum(tensor * tensor, -1))
