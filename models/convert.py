"""Converts a program to a ``.tflite`` file; ``models.export`` runs this module in a child process.

``python -m nightjar.models.convert CONFIGURATION_JSON VOCABULARY_SIZE [padded] OUTPUT_FILE`` for the keyboard, ``python
-m nightjar.models.convert SAVED_MODEL OUTPUT_FILE`` for a saved program. The converter crashes the process on some
graphs without a message, so never call this in a process that must survive.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema
from tensorflow.lite.tools import flatbuffer_utils

from nightjar.models.configurations import ModelConfiguration
from nightjar.models.export import PADDED
from nightjar.models.program import KeyboardProgram, TrainableProgram


def convert(configuration: ModelConfiguration, vocabulary_size: int, *, padded: bool = False) -> bytes:
    """The keyboard's program as a flatbuffer of built-in TFLite operations only.

    The arguments are those of :class:`nightjar.models.program.KeyboardProgram`.

    Raises:
        Exception: any exception of the converter, for example because an operation is not built in.
    """
    with tempfile.TemporaryDirectory() as folder:
        save(KeyboardProgram(configuration, vocabulary_size, padded=padded), Path(folder))
        return lowered(Path(folder))


def save(program: TrainableProgram, folder: Path) -> None:
    """Write a program for :func:`lowered`."""
    # The gradients of gradients are not needed, and ours of operations have none.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(program, str(folder), signatures=program.signatures(), options=options)


def lowered(folder: Path) -> bytes:
    """A saved program as a flatbuffer of built-in TFLite operations only.

    Raises:
        Exception: any exception of the converter, for example because an operation is not built in.
    """
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    # No SELECT_TF_OPS and no custom operations: no device runtime has them.
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    converter.experimental_enable_resource_variables = True
    return without_initial_values(bytes(converter.convert()))


def without_initial_values(program: bytes) -> bytes:
    """The same ``.tflite`` file without initial values of variables, which saves space in it and memory on devices.

    The converter writes the initial value of every variable into the file (here zeros, three times the size of the
    weights), and lets each signature initialise all variables once. A device loads weights first, and may never need
    the variables of an optimizer: without the initialisation, a variable that is never assigned takes no memory, and
    reading it fails.
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


if __name__ == "__main__":
    *_source, _out = sys.argv[1:]
    if len(_source) == 1:
        _made = lowered(Path(_source[0]))
    else:
        _made = convert(
            msgspec.json.decode(_source[0], type=ModelConfiguration), int(_source[1]), padded=PADDED in _source[2:]
        )
    Path(_out).write_bytes(_made)
