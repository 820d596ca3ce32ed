"""Gradients in operations that TFLite has, for operations whose own gradients it lacks.

TensorFlow's gradients of a convolution's kernel, of pooling and of ReLU are operations that no TFLite runtime has. A
kernel's is written as another convolution (Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep
learning"). Each of the others is the gradient of an equal graph of slices and maxima, which lower: all values at one
place of a pooling window are one slice of the padded input. The forward operation stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, cast

import tensorflow as tf

from nightjar.models.cells import Tensor
from nightjar.wire.errors import ConfigError

Gradient = Callable[[Any, Tensor], list[Tensor]]
"""(operation, slope of its output) -> slopes of its inputs."""
_LOWEST = -3.0e38
"""Padding of a maximum: near the smallest float32."""


def _maximum(op: Any) -> Tensor:
    first, *others = _shifts(op, op.get_attr("ksize")[1:3], _LOWEST)
    for other in others:
        first = tf.maximum(first, other)
    return first


def _mean(op: Any) -> Tensor:
    if op.get_attr("padding") != b"VALID":
        msg = f"{op.name}: expected padding='valid', because the edges of a padded mean have fewer values"
        raise ConfigError(msg)
    parts = list(_shifts(op, op.get_attr("ksize")[1:3], 0.0))
    return tf.add_n(parts) / float(len(parts))


def _cut(op: Any) -> Tensor:
    x, *bounds = op.inputs
    begins, ends, strides = ([int(each) for each in tf.get_static_value(bound)] for bound in bounds)
    if set(strides) != {1} or op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask"):
        msg = f"{op.name}: cut with tf.split or tf.unstack, or with a stride of 1"
        raise ConfigError(msg)
    masks = [op.get_attr(name) for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
    starts, sizes = [0] * len(x.shape), [int(size) for size in x.shape]
    for i, (begin, end, size) in enumerate(zip(begins, ends, x.shape, strict=False)):
        free_begin, free_end, single = (mask >> i & 1 for mask in masks)
        starts[i] = 0 if free_begin else begin % size
        stop = size if free_end else min(end if end >= 0 else end + size, size)
        sizes[i] = 1 if single else stop - starts[i]
    return tf.slice(x, starts, sizes)


def _shifts(op: Any, window: tuple[int, int], padding: float) -> Iterator[Tensor]:
    """The values at each place of the window, for all places of the window in all images.

    Yields:
        (B * output rows * output columns, channels) for each place.
    """
    x, strides = op.inputs[0], op.get_attr("strides")[1:3]
    batch, *sizes, channels = x.shape
    rows, columns = op.outputs[0].shape[1:3]
    # Every shift is cut to a multiple of the stride, so that it can be reshaped instead of sliced with strides.
    covered = [strides[0] * rows, strides[1] * columns]
    if list(window) == strides and covered[0] <= sizes[0] and covered[1] <= sizes[1]:
        # Windows that neither overlap nor reach over the edge: their slopes need not be padded and added.
        x = tf.slice(x, [0, 0, 0, 0], [batch, *covered, channels])
        for line in tf.unstack(tf.reshape(x, [batch * rows, strides[0], -1]), axis=1):
            yield from tf.unstack(tf.reshape(line, [-1, strides[1], channels]), axis=1)
        return
    pads = []
    for size, length, stride, cover in zip(sizes, window, strides, covered, strict=True):
        before = _before(size, cover - stride + length)
        pads.append((before, max(length - 1 + cover - size - before, 0)))
    padded = tf.pad(x, [(0, 0), *pads, (0, 0)], constant_values=padding)
    for i in range(window[0]):
        for j in range(window[1]):
            part = tf.slice(padded, [0, i, j, 0], [batch, *covered, channels])
            part = _every(part, batch * rows, strides[0], covered[1] * channels)
            yield tf.reshape(_every(part, batch * rows * columns, strides[1], channels), [-1, channels])


def _before(size: int, reached: int) -> int:
    """Padding before an edge of ``size`` values whose windows reach over ``reached``; none where they fit."""
    return max(reached - size, 0) // 2


def _every(x: Tensor, count: int, stride: int, length: int) -> Tensor:
    """The first of every ``stride`` pieces of ``length`` values: (count, 1, length)."""
    return tf.slice(tf.reshape(x, [count, stride, length]), [0, 0, 0], [count, 1, length])


def _slopes_of_convolution(op: Any, slope: Tensor) -> list[Tensor]:
    """Slopes of the input, a transposed convolution, and of the kernel, a convolution whose channels are the images.

    The kernel's slope at one place of the window is a product over all images and output places: the padded input under
    the output's slope as a kernel, dilated by the stride.
    """
    x, kernel = op.inputs
    if op.get_attr("data_format") != b"NHWC" or list(op.get_attr("dilations")) != [1, 1, 1, 1]:
        msg = f"{op.name}: expected a convolution of NHWC images without dilation"
        raise ConfigError(msg)
    if kernel.shape[2] != x.shape[3]:
        msg = f"{op.name}: expected a convolution over all channels, not in groups"
        raise ConfigError(msg)
    strides = op.get_attr("strides")[1:3]
    of_input = tf.nn.conv2d_transpose(slope, kernel, x.shape, strides, op.get_attr("padding").decode())
    pads, reached = [], []
    for size, length, stride, out in zip(x.shape[1:3], kernel.shape[:2], strides, slope.shape[1:3], strict=True):
        reached.append((out - 1) * stride + length)
        before = _before(size, reached[-1])
        pads.append((before, max(reached[-1] - size - before, 0)))
    padded = tf.pad(x, [(0, 0), *pads, (0, 0)])[:, : reached[0], : reached[1]]
    slopes = tf.transpose(slope, [1, 2, 0, 3])
    of_kernel = tf.nn.conv2d(tf.transpose(padded, [3, 1, 2, 0]), slopes, 1, "VALID", dilations=strides)
    return [of_input, tf.transpose(of_kernel, [1, 2, 0, 3])]


def _that_of(equal: Callable[[Any], Tensor]) -> Gradient:
    """The gradient of an equal graph."""

    def gradient(op: Any, slope: Tensor) -> list[Tensor]:
        outcome = tf.reshape(equal(op), op.outputs[0].shape)
        return cast("list[Tensor]", tf.gradients(outcome, list(op.inputs), slope))

    return gradient


_GRADIENTS: Mapping[str, Gradient] = {
    "Conv2D": _slopes_of_convolution,
    "Relu": _that_of(lambda op: tf.maximum(op.inputs[0], 0.0)),
    "Rsqrt": _that_of(lambda op: 1.0 / tf.sqrt(op.inputs[0])),
    "MaxPool": _that_of(_maximum),
    "AvgPool": _that_of(_mean),
    "StridedSlice": _that_of(_cut),
}
"""Operation -> its gradient in operations that lower."""
for _name, _gradient in _GRADIENTS.items():
    tf.RegisterGradient(f"Nightjar{_name}")(_gradient)


def lowerable_gradients() -> AbstractContextManager[None]:
    """A context in which the graph under construction gets gradients that lower; for :func:`tf.gradients`."""
    graph = tf.compat.v1.get_default_graph()
    return cast("AbstractContextManager[None]", graph.gradient_override_map({n: f"Nightjar{n}" for n in _GRADIENTS}))
