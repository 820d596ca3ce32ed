"""Makes the program and the folder of a model of one's own: a Keras model or a ``tf.Module``, with a loss.

The gradient is TensorFlow's automatic differentiation, in operations that every TFLite runtime has
(:mod:`nightjar.models.lowering`). The program has the signatures of the keyboard's, which devices train the same way,
except that ``evaluate`` returns figures of each example, and ``predict`` is the forward pass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nightjar.models.cells import Tensor
from nightjar.models.convert import save
from nightjar.models.export import run_converter
from nightjar.models.folder import MINIMUM_AGENT_VERSION, PROGRAM, VOCABULARY, WEIGHTS, write_files
from nightjar.models.lowering import lowerable_gradients
from nightjar.models.lstm import Gradient
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.program import TrainableProgram
from nightjar.models.step_memory import memory_of_step
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec, weights_to_bytes

Figure = Callable[[Tensor, Tensor], Tensor]
"""(targets (B,), outputs (B, ...)) -> (B,): a figure of each example."""


def cross_entropy(targets: Tensor, outputs: Tensor) -> Tensor:
    """Cross-entropy of classes, nats: targets (B,) int32, outputs (B, classes) float32 logits."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=outputs)


def rank_of_target(targets: Tensor, outputs: Tensor) -> Tensor:
    """How many classes rank before the target: more probable ones, and earlier ones as probable; NaN does too."""
    own = tf.expand_dims(tf.gather_nd(outputs, tf.stack([tf.range(outputs.shape[0]), targets], 1)), 1)
    tied = tf.logical_and(tf.equal(outputs, own), tf.range(outputs.shape[1]) < tf.expand_dims(targets, 1))
    not_more = tf.cast(outputs <= own, tf.float32)
    return tf.reduce_sum(1.0 - not_more + tf.cast(tied, tf.float32), 1)


def export_program(
    model: Any,
    out: Path,
    loss: Figure = cross_entropy,
    *,
    labels: Sequence[str] = (),
    rank: Figure = rank_of_target,
    inputs: Sequence[int] = (),
    batch_rows: int = 16,
    task_type: str = "classification",
    name: str = "own",
) -> Manifest:
    """Write version 0 of a model: a folder for ``task.model``.

    Args:
        model: a Keras model, or a ``tf.Module`` whose ``__call__`` takes (B, ...) float32.
        out: the folder; created if missing.
        loss: loss of each example.
        labels: the classes, in the order of the outputs; none if the targets are numbers (float32).
        rank: the metric: below 1 where the best prediction is right, below 3 where one of the best three is.
        inputs: shape of one example; a Keras model knows its own.
        batch_rows: B, rows of a training batch.
        task_type: what reads a device's examples (:mod:`nightjar.models.task_types`).
        name: for display.

    Returns:
        The written manifest.

    Raises:
        ConfigError: the model cannot be exported; an operation that cannot be lowered is named with its layer.
        UnavailableError: the conversion failed, or the folder cannot be written.
    """
    shape = tuple(inputs or getattr(model, "input_shape", ())[1:])
    if not shape or None in shape:
        msg = f"inputs: expected the shape of one example, such as (28, 28, 1), got {shape}"
        raise ConfigError(msg)
    target = tf.int32 if labels else tf.float32
    program = AutomaticProgram(model, (batch_rows, *shape), target, loss, rank)
    weights = program.initial()
    with tempfile.TemporaryDirectory() as folder:
        saved, made = Path(folder) / "saved", Path(folder) / PROGRAM
        save(program, saved)
        run_converter([str(saved)], made, f"model {name!r}")
        data = made.read_bytes()
        memory_bytes = memory_of_step(made)
    parts = {PROGRAM: data, WEIGHTS: weights_to_bytes(weights), VOCABULARY: "\n".join(labels).encode() + b"\n"}
    manifest = Manifest(
        version=0,
        configuration=name,
        program=Artifact.of(data),
        weights=Artifact.of(parts[WEIGHTS]),
        vocabulary=Artifact.of(parts[VOCABULARY]),
        layout=program.layout,
        batch_rows=batch_rows,
        minimum_agent_version=MINIMUM_AGENT_VERSION,
        task_type=task_type,
        inputs=shape,
        memory_bytes=memory_bytes,
    )
    write_files(out, Manifest.decode(manifest.encode()), parts)
    return manifest


class AutomaticProgram(TrainableProgram):
    """A program whose gradient TensorFlow derives.

    Targets are int32 classes, where -1 is no target, or float32 numbers, where NaN is none.

    Raises:
        ConfigError: training would change more than trainable variables, or there are none.
    """

    def __init__(self, model: Any, batch: Sequence[int], target: Any, loss: Figure, rank: Figure) -> None:
        self._model, self._loss, self._rank, self._target = model, loss, rank, target
        model(tf.zeros(batch))  # builds what has no variables yet
        variables = [each if isinstance(each, tf.Variable) else each.value for each in model.trainable_variables]
        names = [str(getattr(each, "path", each.name)).split(":")[0] for each in model.trainable_variables]
        kept = [str(getattr(each, "path", each.name)) for each in getattr(model, "non_trainable_variables", ())]
        if kept:
            msg = (
                f"a device's training changes trainable variables only, got {', '.join(kept)}: use "
                "GroupNormalization instead of BatchNormalization, and neither Dropout nor frozen layers"
            )
            raise ConfigError(msg)
        if not variables:
            msg = "the model has no trainable variables"
            raise ConfigError(msg)
        shapes = [tuple(each.shape) for each in variables]
        specs = [ParameterSpec(each.replace("/", "_"), shape) for each, shape in zip(names, shapes, strict=True)]
        x, y = tf.TensorSpec(batch, tf.float32, name="x"), tf.TensorSpec(batch[:1], target, name="y")
        super().__init__(ParameterLayout(tuple(specs)), [x, y], {"predict": [x]}, list(variables))

    def initial(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The model's present weights, (n,) float32."""
        values = [variable.numpy() for variable in self._weights]
        return self.layout.flatten({s.name: v for s, v in zip(self.layout.tensors, values, strict=True)})

    def slopes(self, weights: Sequence[Tensor], x: Tensor, y: Tensor) -> Gradient:
        """The gradient of a batch: x (B, ...) float32, y (B,)."""
        del weights  # the model reads its own variables
        wanted, safe = self._wanted(y)
        with lowerable_gradients():
            outputs = self._model(x)
            losses = self._loss(safe, outputs)
        targets = tf.reduce_sum(wanted)
        loss = tf.reduce_sum(losses * wanted) / tf.maximum(targets, 1.0)
        found = tf.gradients(loss, self._weights)
        unused = [spec.name for spec, slope in zip(self.layout.tensors, found, strict=True) if slope is None]
        if unused:
            msg = f"the loss does not depend on {', '.join(unused)}"
            raise ConfigError(msg)
        hits = tf.reduce_sum(tf.cast(self._rank(safe, outputs) < 1.0, tf.float32) * wanted)
        return Gradient([tf.convert_to_tensor(each) for each in found], loss, targets, hits)

    def evaluate(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Figures of each example, all (B,) float32: loss, rank of the target, and whether there is a target."""
        wanted, safe = self._wanted(y)
        outputs = self._model(x)
        rank = tf.cast(self._rank(safe, outputs), tf.float32)
        return {"loss": self._loss(safe, outputs) * wanted, "rank": rank, "wanted": wanted}

    def predict(self, x: Tensor) -> dict[str, Tensor]:
        """The forward pass."""
        return {"outputs": self._model(x)}

    def _wanted(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each row has a target, (B,) float32; and the targets with 0 where there is none."""
        there = y >= 0 if self._target == tf.int32 else tf.equal(y, y)
        return tf.cast(there, tf.float32), tf.where(there, y, tf.zeros_like(y))
