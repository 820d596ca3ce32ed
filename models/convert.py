"""Converts the program to a ``.tflite`` file; ``models.export`` runs this module in a child process.

``python -m models.convert CONFIGURATION_JSON VOCABULARY_SIZE OUTPUT_FILE``. The converter crashes the process on some
graphs without a message, so never call this in a process that must survive.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec
import tensorflow as tf

from models.configurations import ModelConfiguration
from models.program import SIGNATURES, Program
from models.uninitialised import without_initial_values


def convert(configuration: ModelConfiguration, vocabulary_size: int) -> bytes:
    """The program as a flatbuffer of built-in TFLite operations only.

    Raises:
        Exception: any exception of the converter, for example because an operation is not built in.
    """
    program = Program(configuration, vocabulary_size)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(program, folder, signatures={name: program.traced(name) for name in SIGNATURES})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(SIGNATURES))
        # No SELECT_TF_OPS and no custom operations: no device runtime has them.
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.experimental_enable_resource_variables = True
        return without_initial_values(bytes(converter.convert()))


if __name__ == "__main__":
    _configuration = msgspec.json.decode(sys.argv[1], type=ModelConfiguration)
    Path(sys.argv[3]).write_bytes(convert(_configuration, int(sys.argv[2])))
