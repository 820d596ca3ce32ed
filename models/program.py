"""The program artifact: the signatures that an agent calls, and their implementation for the graph in ``models.lstm``.

The weights are a separate artifact and must be loaded first; until then the variables take no memory. So a device
allocates only what it uses: plain SGD needs the weights, momentum is allocated by ``begin``. ``save``, ``restore`` and
``delta`` use the flat vector; ``read`` and ``write`` work tensor by tensor without copies of the flat vector, for
devices with little memory.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from nightjar.models import lstm
from nightjar.models.cells import Tensor
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.lstm import Gradient, LstmTensors
from nightjar.wire.parameters import ParameterLayout


class TrainableProgram(tf.Module, abc.ABC):  # type: ignore[misc]  # TensorFlow has no types
    """One model under training.

    Args:
        layout: names and shapes of the weights.
        batch: the specifications of ``x`` and ``y``.
        further: signatures beside those of every program, with the specifications of their inputs.
        weights: the model's variables in the order of the layout; None creates them.
    """

    def __init__(
        self,
        layout: ParameterLayout,
        batch: Sequence[Any],
        further: Mapping[str, Sequence[Any]],
        weights: list[Any] | None = None,
    ) -> None:
        super().__init__()
        self.layout = layout
        self._weights = self._variables("") if weights is None else weights
        self._momentum = self._variables("_momentum")
        self._anchor = self._variables("_anchor")
        # Not (): on 64-bit ARM ai-edge-litert ends with a segmentation fault where a shape is empty.
        pace = [_float("learning_rate", 1), _float("clip_norm", 1)]
        pull = [_float("momentum", 1), _float("proximal", 1)]
        self._inputs = {
            "train": [*batch, *pace],
            "evaluate": batch,
            "save": [],
            "restore": [_float("weights", layout.size)],
            "delta": [],
            "read": [],
            "write": [],  # by name
            "begin": [],
            "train_momentum": [*batch, *pace, *pull],
            **further,
        }

    @abc.abstractmethod
    def slopes(self, weights: Sequence[Tensor], x: Tensor, y: Tensor) -> Gradient:
        """The gradient of a batch at these weights."""

    @abc.abstractmethod
    def evaluate(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Figures of a batch."""

    def train(self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor) -> dict[str, Tensor]:
        """One step of SGD on a batch.

        The mean gradient is clipped to the norm ``clip_norm``; a batch without targets does not change the weights.

        Returns:
            loss: () mean per target before the step, nats; targets: (); hits: () counted targets predicted correctly;
            gradient_norm: () before clipping.
        """
        weights = self._read()
        found = self.slopes(weights, x, y)
        norm, share = _clipping(found, _scalar(clip_norm))
        rate = _scalar(learning_rate) * share
        for variable, value, slope in zip(self._weights, weights, found.weights, strict=True):
            variable.assign(value - rate * slope)
        return _said(found, norm)

    def train_momentum(
        self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor, momentum: Tensor, proximal: Tensor
    ) -> dict[str, Tensor]:
        """One step of SGD with momentum and a proximal term towards the weights at ``begin``; returns like ``train``.

        The step is v = momentum * v + g + proximal * (w - anchor), w = w - learning_rate * v, where g is the clipped
        gradient: the gradient of FedProx (Li et al. 2020, equation 2) with Polyak's heavy ball.
        """
        weights = self._read()
        found = self.slopes(weights, x, y)
        norm, share = _clipping(found, _scalar(clip_norm))
        learning_rate, momentum, proximal = _scalar(learning_rate), _scalar(momentum), _scalar(proximal)
        for i, (value, slope) in enumerate(zip(weights, found.weights, strict=True)):
            velocity = momentum * self._momentum[i].read_value() + share * slope
            velocity += proximal * (value - self._anchor[i].read_value())
            self._momentum[i].assign(velocity)
            self._weights[i].assign(value - learning_rate * velocity)
        return _said(found, norm)

    def begin(self) -> dict[str, Tensor]:
        """Reset the momentum, and make the weights the anchor of ``train_momentum`` and ``delta``."""
        for anchor, momentum, value in zip(self._anchor, self._momentum, self._read(), strict=True):
            anchor.assign(value)
            # The converter would write constant zeros into the file.
            momentum.assign(tf.minimum(tf.abs(value), 0.0))
        return {"ok": tf.constant(1)}

    def save(self) -> dict[str, Tensor]:
        """Return the weights, (n,) float32."""
        return {"weights": _join(self._read())}

    def restore(self, weights: Tensor) -> dict[str, Tensor]:
        """Load weights (n,) float32, and make them the anchor of ``delta``."""
        parts = tf.split(weights, [spec.size for spec in self.layout.tensors])
        for variable, anchor, part, spec in zip(self._weights, self._anchor, parts, self.layout.tensors, strict=True):
            value = tf.reshape(part, spec.shape)
            variable.assign(value)
            anchor.assign(value)
        return {"ok": tf.constant(1)}

    def delta(self) -> dict[str, Tensor]:
        """Return the change of the weights since ``restore`` or ``begin``, (n,) float32."""
        return {"delta": _join(self._read()) - _join([anchor.read_value() for anchor in self._anchor])}

    def read(self) -> dict[str, Tensor]:
        """Return the weights, by the names of the layout."""
        return {spec.name: value for spec, value in zip(self.layout.tensors, self._read(), strict=True)}

    def write(self, **tensors: Tensor) -> dict[str, Tensor]:
        """Load weights by the names of the layout; there is no anchor until ``begin``."""
        for variable, spec in zip(self._weights, self.layout.tensors, strict=True):
            variable.assign(tensors[spec.name])
        return {"ok": tf.constant(1)}

    def signatures(self) -> dict[str, Any]:
        """All signatures as concrete functions, by name."""
        return {name: self.traced(name) for name in self._inputs}

    def traced(self, signature: str) -> Any:
        """A signature as a concrete function for the fixed shapes of this program."""
        if signature == "write":
            named = {spec.name: _float(spec.name, *spec.shape) for spec in self.layout.tensors}
            return tf.function(self.write).get_concrete_function(**named)
        function = tf.function(getattr(self, signature), input_signature=self._inputs[signature])
        return function.get_concrete_function()

    def _variables(self, suffix: str) -> list[Any]:
        return [tf.Variable(tf.zeros(spec.shape), name=spec.name + suffix) for spec in self.layout.tensors]

    def _read(self) -> list[Tensor]:
        """Reads each variable once, because each read is a copy."""
        return [variable.read_value() for variable in self._weights]


class KeyboardProgram(TrainableProgram):
    """The keyboard model, with the gradient in :mod:`nightjar.models.lstm`, faster than automatic differentiation.

    ``padded`` is whether the vocabulary may have fewer word ids than ``vocabulary_size``: the rows of the embedding for
    the others are zero, and stay so.
    """

    def __init__(self, configuration: ModelConfiguration, vocabulary_size: int, *, padded: bool = False) -> None:
        self._padded = padded
        shape = (configuration.batch_rows, configuration.sequence_length)
        batch = [tf.TensorSpec(shape, tf.int32, name=name) for name in ("x", "y")]
        token = tf.TensorSpec((1,), tf.int32, name="token")
        state = [_float("h", 1, configuration.embedding), _float("c", 1, configuration.hidden)]
        super().__init__(configuration.layout(vocabulary_size), batch, {"step": [token, *state]})

    def slopes(self, weights: Sequence[Tensor], x: Tensor, y: Tensor) -> Gradient:
        """The gradient of a batch: x, y (B, T) int32."""
        return lstm.gradient(LstmTensors(*weights), x, y, padded=self._padded)

    def evaluate(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Loss and recall on a batch: the fields of :class:`nightjar.models.lstm.Scores`."""
        return lstm.score(LstmTensors(*self._read()), x, y, padded=self._padded)._asdict()

    def step(self, token: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
        """Read one word; see :func:`nightjar.models.lstm.advance`."""
        scores, h, c = lstm.advance(LstmTensors(*self._read()), token, h, c, padded=self._padded)
        return {"scores": scores, "h": h, "c": c}


def _float(name: str, *shape: int) -> Any:
    return tf.TensorSpec(shape, tf.float32, name=name)


def _scalar(number: Tensor) -> Tensor:
    """() of (1,)."""
    return tf.reshape(number, [])


def _join(weights: Sequence[Tensor]) -> Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in weights], 0)


def _clipping(found: Gradient, clip_norm: Tensor) -> tuple[Tensor, Tensor]:
    """The global norm of the gradient, and the factor that clips it."""
    norm = tf.sqrt(tf.add_n([_square_sum(slope) for slope in found.weights]))
    return norm, clip_norm / tf.maximum(norm, clip_norm)


def _said(found: Gradient, norm: Tensor) -> dict[str, Tensor]:
    return {"loss": found.loss, "targets": found.targets, "hits": found.hits, "gradient_norm": norm}


def _square_sum(tensor: Tensor) -> Tensor:
    """Sum of squares in two stages: TFLite sums a tensor in one float32, which loses precision on large tensors."""
    return tf.reduce_sum(tf.reduce_sum(tensor * tensor, -1))
