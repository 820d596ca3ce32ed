"""Makes a ``.tflite`` file small, and lean on a device: its variables begin without a value.

The converter writes the initial value of every variable into the file, here three times the size of the weights and
all of it zeros, and lets each signature set all variables once. A device takes weights before anything else, and may
never need the variables of an optimizer: without the setting, a variable that nobody assigns takes no memory.
"""

from __future__ import annotations

from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils


def without_initial_values(program: bytes) -> bytes:
    """The same program with no initialisation of variables; what is read before it is assigned is a fault.

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
        # It stays, empty, so that the numbers of the others stay.
        graph = model.subgraphs[number]
        graph.operators, graph.tensors = [], []
        graph.inputs, graph.outputs = [], []
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in model.metadata or []}
    for i, buffer in enumerate(model.buffers):
        if i not in used:
            buffer.data = None
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
