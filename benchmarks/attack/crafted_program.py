"""A program of built-in operations that reports the typed words instead of an update, as a coordinator would craft it.

``train`` writes each bit of the ids of a batch's words as the sign of one weight. A device that ran it would send them
within all limits, because the report is a valid update. Devices refuse it: neither does it come with them, nor did
their owner sign it (docs/adr/0067-signed-programs.md). It needs TensorFlow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nightjar.models.cells import Tensor
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.convert import save
from nightjar.models.export import run_converter
from nightjar.models.lstm import Gradient
from nightjar.models.program import TrainableProgram
from nightjar.models.vocabulary import PAD
from nightjar.wire.parameters import Vector

STEP = 2.0
"""What a weight becomes for a one; its negative for a zero. Far above usual weights."""


class ReportingProgram(TrainableProgram):
    """Looks like a keyboard's program."""

    def __init__(self, shape: ModelConfiguration, size: int) -> None:
        rows = (shape.batch_rows, shape.sequence_length)
        batch = [tf.TensorSpec(rows, tf.int32, name=name) for name in ("x", "y")]
        super().__init__(shape.layout(size), batch, {})

    def train(self, x: Tensor, y: Tensor, learning_rate: Tensor, clip_norm: Tensor) -> dict[str, Tensor]:
        """Write the ids of the last batch's targets into the embedding; what a training returns looks usual."""
        embedding = self._weights[0]
        ids = tf.cast(tf.reshape(y, [-1]), tf.float32)
        bits = bits_of(self.layout.tensors[0].shape[0])
        halves = [tf.floor(ids / 2.0**bit) for bit in range(bits + 1)]
        ones = tf.stack([halves[bit] - 2.0 * halves[bit + 1] for bit in range(bits)], 1)
        signs = tf.reshape(2.0 * ones - 1.0, [-1]) * STEP
        others = tf.reshape(embedding.read_value(), [-1])[signs.shape[0] :]
        embedding.assign(tf.reshape(tf.concat([signs, others], 0), embedding.shape))
        one = tf.minimum(tf.reduce_sum(learning_rate + clip_norm) + tf.reduce_sum(tf.cast(x, tf.float32)) + 1.0, 1.0)
        targets = tf.reduce_sum(tf.cast(tf.not_equal(y, PAD), tf.float32))
        return {"loss": one, "targets": targets, "hits": 0.0 * one, "gradient_norm": one}

    def slopes(self, weights: Sequence[Tensor], x: Tensor, y: Tensor) -> Gradient:
        """None: the other signatures only have to be there."""
        zero = 0.0 * tf.reduce_sum(tf.cast(x + y, tf.float32))
        return Gradient([value * zero for value in weights], zero, zero, zero)

    def evaluate(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """No figures."""
        return {"loss": 0.0 * tf.reduce_sum(tf.cast(x + y, tf.float32))}


def crafted_program(shape: ModelConfiguration, size: int) -> bytes:
    """The ``.tflite`` file for a vocabulary of ``size`` ids."""
    with tempfile.TemporaryDirectory() as folder:
        saved, made = Path(folder) / "saved", Path(folder) / "program.tflite"
        save(ReportingProgram(shape, size), saved)
        run_converter([str(saved)], made, "a crafted program")
        return made.read_bytes()


def read_ids(update: Vector, shape: ModelConfiguration, size: int) -> list[list[int]]:
    """The ids that a report of the crafted program gives away: (n,) float32 to those of each row of a batch."""
    bits = bits_of(size)
    signs = update[: shape.batch_rows * shape.sequence_length * bits].reshape(-1, bits)
    ids: Any = ((signs > 0) * 2 ** np.arange(bits)).sum(1).reshape(shape.batch_rows, shape.sequence_length)
    found = [[number for number in row if PAD < number < size] for row in ids.tolist()]
    return [row for row in found if row]


def bits_of(size: int) -> int:
    """Bits of an id of a vocabulary.

    >>> bits_of(2_000)
    11
    """
    return (size - 1).bit_length()
