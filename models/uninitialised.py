"""Makes a ``.tflite`` file small: zeros that initialise variables are computed on the device, not stored in the file.

The converter writes the initial value of a variable into the file, here two times the size of the weights and all of it
zeros. Each such constant becomes the output of a FILL operation. Nothing else in the file changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

SMALLEST_BYTES = 1024
"""Shorter constants are cheaper than the operation that would make them."""


def zeros_by_fill(program: bytes) -> bytes:
    """The same program with its large all-zero float constants computed by FILL.

    Args:
        program: a ``.tflite`` flatbuffer.

    Returns:
        A ``.tflite`` flatbuffer.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(program))
    fill = _operator_code(model, schema.BuiltinOperator.FILL)
    for graph in model.subgraphs:
        zeros = [i for i, tensor in enumerate(graph.tensors) if _is_stored_zeros(model, tensor)]
        for i in zeros:
            shape = np.asarray(graph.tensors[i].shape, np.int32)
            operator = schema.OperatorT()
            operator.opcodeIndex = fill
            operator.inputs = np.array(
                [
                    _add_constant(model, graph, shape, schema.TensorType.INT32),
                    _add_constant(model, graph, np.zeros((), np.float32), schema.TensorType.FLOAT32),
                ],
                np.int32,
            )
            operator.outputs = np.array([i], np.int32)
            graph.tensors[i].buffer = 0  # the empty buffer: the value is computed
            graph.operators.insert(0, operator)
    _drop_unused_buffers(model)
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))


def _is_stored_zeros(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return (
        tensor.type == schema.TensorType.FLOAT32
        and data is not None
        and len(data) >= SMALLEST_BYTES
        and not np.any(np.asarray(data))
    )


def _operator_code(model: Any, builtin: int) -> int:
    for i, code in enumerate(model.operatorCodes):
        if code.builtinCode == builtin:
            return i
    code = schema.OperatorCodeT()
    code.builtinCode = builtin
    code.deprecatedBuiltinCode = min(builtin, 127)  # where readers before TFLite 2.4 look
    code.version = 1
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _add_constant(model: Any, graph: Any, value: Any, kind: int) -> int:
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(value.tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor = schema.TensorT()
    tensor.name = b"zeros"
    tensor.shape = np.array(value.shape, np.int32)
    tensor.type = kind
    tensor.buffer = len(model.buffers) - 1
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def _drop_unused_buffers(model: Any) -> None:
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or []}
    for i, buffer in enumerate(model.buffers):
        if i not in used:
            buffer.data = None
