"""The arithmetic of an aggregation in TensorFlow, which takes a GPU that it sees: for hosts with one.

Every operation runs by itself (no ``tf.function``, no XLA), because a compiler would put a multiplication and an
addition into one operation, which rounds otherwise. Places within an update are unique, so no two threads add to the
same one, and updates follow each other in order: the sum is that of numpy, bit for bit. With one exception, which is
why nothing but tests and a benchmark runs this on a CPU: there TensorFlow takes numbers below 2.3e-308 for zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from coordinator.core.arithmetic import Elements, Wide


class _Sum:
    def __init__(self, size: int) -> None:
        self._total = tf.Variable(tf.zeros([size], tf.float64), trainable=False)

    def add(self, indices: npt.NDArray[np.int64], values: Wide, weight: float) -> None:
        self._total.scatter_add(tf.IndexedSlices(weight * tf.constant(values), tf.constant(indices)))

    def divided(self, by: float) -> Wide:
        return np.array(self._total / by)


class TensorFlowArithmetic:
    """Implements :class:`coordinator.core.arithmetic.Arithmetic`."""

    def sum(self, size: int) -> _Sum:
        """Zeros (n,) to add to."""
        return _Sum(size)

    def take(self, values: Wide) -> Elements:
        """A vector to calculate with."""
        return tf.constant(values)

    def give(self, elements: Elements) -> Wide:
        """What came out."""
        return np.array(elements)

    def sqrt(self, elements: Elements) -> Elements:
        """The root of each element."""
        return tf.sqrt(elements)

    def sign(self, elements: Elements) -> Elements:
        """-1, 0 or 1 for each element."""
        return tf.sign(elements)
