"""The program artifact: the signatures that an agent calls, around the graph in ``models.lstm``.

Weights are an artifact of their own and are taken before anything else; until then the variables do not exist. So a
device has memory for what it uses only: plain SGD needs the weights, and an optimizer with a memory has that memory
once ``begin`` was called. ``save``, ``restore`` and ``delta`` speak of the flat vector; ``read`` and ``write`` do the
same tensor by tensor, without the flat vector's copies, which is what a device with little memory calls.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from models import lstm
from models.configurations import ModelConfiguration
from models.lstm import Gradient, Tensor, Weights

SIGNATURES = (
    "train",
    "evaluate",
    "step",
    "save",
    "restore",
    "delta",
    "read",
    "write",
    "begin",
    "train_momentum",
)


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
        self._weights = self._variables("")
        self._momentum = self._variables("_momentum")
        self._anchor = self._variables("_anchor")

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
        norm, share = _clipping(found, clip_norm)
        rate = learning_rate * share
        for variable, value, slope in zip(self._weights, weights, found.weights, strict=True):
            variable.assign(value - rate * slope)
        return _said(found, norm)

    def train_momentum(
        self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor, momentum: Tensor, proximal: Tensor
    ) -> dict[str, Tensor]:
        """As ``train``, with momentum and a pull towards where ``begin`` was called.

        The step is v = momentum * v + g + proximal * (w - anchor), w = w - learning_rate * v, where g is the clipped
        gradient: the gradient of FedProx (Li et al. 2020, equation 2) with Polyak's heavy ball.

        Args:
            x: (B, T) int32 inputs.
            y: (B, T) int32 targets.
            learning_rate: () float32.
            clip_norm: () float32.
            momentum: () float32, 0 for none.
            proximal: () float32, mu of FedProx, 0 for none.
        """
        weights = self._read()
        found = lstm.gradient(weights, x, y)
        norm, share = _clipping(found, clip_norm)
        for i, (value, slope) in enumerate(zip(weights, found.weights, strict=True)):
            velocity = momentum * self._momentum[i].read_value() + share * slope
            velocity += proximal * (value - self._anchor[i].read_value())
            self._momentum[i].assign(velocity)
            self._weights[i].assign(value - learning_rate * velocity)
        return _said(found, norm)

    def begin(self) -> dict[str, Tensor]:
        """Forget the momentum, and remember these weights as the anchor of ``train_momentum`` and ``delta``."""
        for anchor, momentum, value in zip(self._anchor, self._momentum, self._read(), strict=True):
            anchor.assign(value)
            # Zeros that the converter cannot know, or it would write them all into the file.
            momentum.assign(tf.minimum(tf.abs(value), 0.0))
        return {"ok": tf.constant(1)}

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
        for variable, anchor, part, spec in zip(self._weights, self._anchor, parts, self._layout.tensors, strict=True):
            value = tf.reshape(part, spec.shape)
            variable.assign(value)
            anchor.assign(value)
        return {"ok": tf.constant(1)}

    def delta(self) -> dict[str, Tensor]:
        """How the weights have moved since ``restore`` or ``begin``, (n,) float32."""
        return {"delta": _join(self._read()) - _join(Weights(*(anchor.read_value() for anchor in self._anchor)))}

    def read(self) -> dict[str, Tensor]:
        """The weights by the names of the layout."""
        return self._read()._asdict()

    def write(self, **tensors: Tensor) -> dict[str, Tensor]:
        """Take weights by the names of the layout; there is no anchor until ``begin``."""
        for variable, spec in zip(self._weights, self._layout.tensors, strict=True):
            variable.assign(tensors[spec.name])
        return {"ok": tf.constant(1)}

    def traced(self, signature: str) -> Any:
        """One of ``SIGNATURES`` as a concrete function for the fixed shapes of this program."""
        shape = self._configuration
        x, y = (tf.TensorSpec((shape.batch_rows, shape.sequence_length), tf.int32, name=name) for name in ("x", "y"))
        pace = [_float("learning_rate"), _float("clip_norm")]
        pull = [_float("momentum"), _float("proximal")]
        specs = {
            "train": [x, y, *pace],
            "train_momentum": [x, y, *pace, *pull],
            "evaluate": [x, y],
            "step": [
                tf.TensorSpec((1,), tf.int32, name="token"),
                _float("h", 1, shape.embedding),
                _float("c", 1, shape.hidden),
            ],
            "restore": [_float("weights", self._layout.size)],
        }
        if signature == "write":
            named = {spec.name: _float(spec.name, *spec.shape) for spec in self._layout.tensors}
            return tf.function(self.write).get_concrete_function(**named)
        method = getattr(self, signature)
        return tf.function(method, input_signature=specs.get(signature, [])).get_concrete_function()

    def _variables(self, suffix: str) -> list[Any]:
        return [tf.Variable(tf.zeros(spec.shape), name=spec.name + suffix) for spec in self._layout.tensors]

    def _read(self) -> Weights:
        """Each variable once: a read is a copy."""
        return Weights(*(variable.read_value() for variable in self._weights))


def _float(name: str, *shape: int) -> Any:
    return tf.TensorSpec(shape, tf.float32, name=name)


def _join(weights: Weights) -> Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in weights], 0)


def _clipping(found: Gradient, clip_norm: Tensor) -> tuple[Tensor, Tensor]:
    """The global norm of the gradient, and the share of it that is kept."""
    norm = tf.sqrt(tf.add_n([_square_sum(slope) for slope in found.weights]))
    return norm, clip_norm / tf.maximum(norm, clip_norm)


def _said(found: Gradient, norm: Tensor) -> dict[str, Tensor]:
    return {"loss": found.loss, "targets": found.targets, "hits": found.hits, "gradient_norm": norm}


def _square_sum(tensor: Tensor) -> Tensor:
    """Sum of squares in two stages: TFLite adds a whole tensor in one float, which loses digits over a million."""
    return tf.reduce_sum(tf.reduce_sum(tensor * tensor, -1))
