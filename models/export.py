"""Exports the program artifact of a configuration, and caches it.

Conversion runs in a child process (``models.convert``), because the converter can crash its process. This module itself
does not import TensorFlow, so a coordinator whose program is in the cache starts without it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nightjar.host.children import python_command
from nightjar.host.files import put_in_place
from nightjar.models.configurations import ModelConfiguration
from nightjar.wire.errors import ConfigError, UnavailableError

SOURCES = ("configurations.py", "cells.py", "lstm.py", "program.py", "convert.py", "vocabulary.py")
"""Files of this package that the bytes of a program depend on."""

PADDED = "padded"
"""Argument of the converter: zero rows of the embedding are no words."""

CONVERSION_TIMEOUT_S = 600.0
"""Long enough for a slow board; a converter that hangs must still be stopped."""

_INSTEAD = {
    "Relu6Grad": "use ReLU",
    "LeakyReluGrad": "use ReLU",
    "EluGrad": "use ReLU or tanh",
    "SeluGrad": "use ReLU or tanh",
    "SoftplusGrad": "use ReLU or tanh",
    "DepthwiseConv2dNativeBackpropFilter": "use Conv2D",
    "DepthwiseConv2dNativeBackpropInput": "use Conv2D",
    "FusedBatchNormGradV3": "use GroupNormalization or LayerNormalization",
    "TensorListPopBack": "unroll the loop: unroll=True of a recurrent layer",
    "ZerosLike": "unroll the loop: unroll=True of a recurrent layer",
}
_ELSE = "use Dense, Conv2D, pooling, ReLU, tanh, sigmoid, LayerNormalization or GroupNormalization"
_LOCATED = re.compile(r'fused\["(?P<op>\w+):", "(?P<name>[^"@]+)')
_REFUSED = re.compile(r"error: '?tf\.(?P<op>\w+)'? op is neither")


def export_program(
    configuration: ModelConfiguration, vocabulary_size: int, cache: Path, *, padded: bool = False
) -> bytes:
    """The ``.tflite`` file with the signatures of :class:`nightjar.models.program.KeyboardProgram`, without weights.

    Exported programs are kept in the folder ``cache``, which is created if missing. Devices run a program only if it
    comes with the package (:mod:`nightjar.models.packaged`) or its owner signed it.

    Raises:
        ConfigError: TensorFlow is not installed.
        UnavailableError: the conversion failed, or the cache cannot be written.
    """
    configuration.layout(vocabulary_size)  # refuses an impossible size before a process starts
    size = (str(vocabulary_size), *([PADDED] if padded else []))
    kept = cache / f"{'-'.join((configuration.name, *size))}-{_fingerprint(configuration, size)}.tflite"
    try:
        if kept.exists():
            return kept.read_bytes()
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "program.tflite"
            shape = msgspec.json.encode(configuration).decode()
            run_converter([shape, *size], made, f"model {configuration.name!r}")
            put_in_place(made, kept)  # atomic: a reader never sees half a file
        return kept.read_bytes()
    except OSError as error:
        msg = f"cannot keep programs in {cache}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error


def run_converter(source: Sequence[str], made: Path, what: str) -> None:
    """Run :mod:`nightjar.models.convert` in a child process, with arguments ``source`` and output file ``made``.

    Raises:
        ConfigError: an operation cannot be lowered.
        UnavailableError: the conversion failed.
    """
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1",  # conversion computes nothing: do not reserve GPU memory
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter and module
            python_command("-m", "nightjar.models.convert", *source, str(made)),
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CONVERSION_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"converting {what} took more than {CONVERSION_TIMEOUT_S:.0f} s; try again"
        raise UnavailableError(msg) from error
    if child.returncode == 0 and made.exists():
        return
    refused = refused_operations(child.stderr)
    if refused:
        msg = f"{what} cannot be lowered to TFLite's built-in operations: {'; '.join(refused)}"
        raise ConfigError(msg)
    how = f"was killed by signal {-child.returncode}" if child.returncode < 0 else f"exited with {child.returncode}"
    last = "\n".join(child.stderr.strip().splitlines()[-5:])
    msg = f"converting {what} to TFLite failed: the converter {how}; its last output:\n{last}"
    raise UnavailableError(msg)


def refused_operations(output: str) -> list[str]:
    """Which operations the converter refused, in which layer, and what to use instead, from its output.

    >>> refused_operations('''loc(fused["EluGrad:", "gradients/m/hidden_1/Elu_grad/EluGrad@f"]): error: 'tf.EluGrad' op
    ... is neither'''.replace(chr(10), " "))
    ['EluGrad in layer hidden: use ReLU or tanh']
    """
    found: dict[str, None] = {}
    for line in output.splitlines():
        refused = _REFUSED.search(line)
        located = _LOCATED.search(line)
        if refused is None or located is None:
            continue
        op = refused["op"]
        layer = _layer(located["name"])
        found[f"{op} in {layer}: {_INSTEAD.get(op, _ELSE)}"] = None
    return list(found)


def _layer(name: str) -> str:
    """The layer in the name of an operation: scopes are ``gradients``, the model, the layer, the operation."""
    scopes = [scope for scope in name.split("/") if not scope.startswith("gradient")]
    # Keras numbers a layer's second scope: the model was called before.
    return f"layer {scopes[1].removesuffix('_1')}" if len(scopes) > 2 else f"operation {name}"


def _fingerprint(configuration: ModelConfiguration, size: Sequence[str]) -> str:
    """Hash of everything that the program's bytes depend on; the cache key."""
    digest = hashlib.sha256(msgspec.json.encode((configuration, size, _tensorflow_version())))
    for name in SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:16]


def _tensorflow_version() -> str:
    for distribution in ("tensorflow", "tensorflow-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    msg = "exporting a program needs TensorFlow: pip install -r requirements/tensorflow.txt"
    raise ConfigError(msg)
