"""Removes the initial values of variables from a ``.tflite`` file, to save space in the file and memory on devices.

The converter writes the initial value of every variable into the file (here zeros, three times the size of the
weights), and lets each signature initialise all variables once. A device loads weights first, and may never need the
variables of an optimizer: without the initialisation, a variable that is never assigned takes no memory.
"""

from __future__ import annotations

from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils


def without_initial_values(program: bytes) -> bytes:
    """The same program without initialisation of variables; reading a variable before its first assignment fails.

    Args:
        program: a ``.tflite`` flatbuffer.

    Returns:
        A ``.tflite`` flatbuffer.
    """
    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(program))
    once = [i for i, code in enumerate(model.operatorCodes) if code.builtinCode == schema.BuiltinOperator.CALL_ONCE]
    initialising = set()
    for graph in model.subgraphs:
        initialising |= {o.builtinOptions.initSubgraphIndex for o in graph.operators if o.opcodeIndex in once}
        graph.operators = [operator for operator in graph.operators if operator.opcodeIndex not in once]
    for number in initialising:
        # Emptied, not removed, so that the other subgraphs keep their indices.
        graph = model.subgraphs[number]
        graph.operators, graph.tensors = [], []
        graph.inputs, graph.outputs = [], []
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or []}
    for i, buffer in enumerate(model.buffers):
        if i not in used:
            buffer.data = None
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
