"""Converts a program to a ``.tflite`` file; ``models.export`` runs this module in a child process.

``python -m models.convert CONFIGURATION_JSON VOCABULARY_SIZE OUTPUT_FILE`` for the keyboard, ``python -m models.convert
SAVED_MODEL OUTPUT_FILE`` for a saved program. The converter crashes the process on some graphs without a message, so
never call this in a process that must survive.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec
import tensorflow as tf

from models.configurations import ModelConfiguration
from models.program import Program, TrainableProgram
from models.uninitialised import without_initial_values


def convert(configuration: ModelConfiguration, vocabulary_size: int) -> bytes:
    """The keyboard's program as a flatbuffer of built-in TFLite operations only.

    Raises:
        Exception: any exception of the converter, for example because an operation is not built in.
    """
    with tempfile.TemporaryDirectory() as folder:
        save(Program(configuration, vocabulary_size), Path(folder))
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


if __name__ == "__main__":
    *_source, _out = sys.argv[1:]
    if len(_source) == 1:
        _made = lowered(Path(_source[0]))
    else:
        _made = convert(msgspec.json.decode(_source[0], type=ModelConfiguration), int(_source[1]))
    Path(_out).write_bytes(_made)
