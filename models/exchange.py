"""A version in the formats of others: SavedModel, safetensors, and an int8 ``.tflite`` that predicts.

What is read is a model folder (:mod:`models.folder`); its hashes were checked by whoever wrote it. Two of the three
need TensorFlow, which is imported only then.
"""

from __future__ import annotations

from pathlib import Path

from models.folder import MANIFEST, WEIGHTS
from models.manifest import Manifest
from wire.errors import ConfigError, UnavailableError
from wire.parameters import Vector, weights_from_bytes

SAFETENSORS, SAVED_MODEL, TFLITE = "safetensors", "saved-model", "tflite"
FORMATS = (SAFETENSORS, SAVED_MODEL, TFLITE)
NEED_TENSORFLOW = frozenset({SAVED_MODEL, TFLITE})


def exchange(folder: Path, form: str, out: Path) -> int:
    """Write the model of a folder in another format.

    Args:
        folder: as :func:`models.folder.write_files` makes it.
        form: one of FORMATS.
        out: file to write; for a SavedModel a folder.

    Returns:
        Bytes written.

    Raises:
        ConfigError: no such format.
        RemoteProtocolError: the folder holds no model.
        UnavailableError: it cannot be read, converted or written.
    """
    try:
        manifest = Manifest.decode((folder / MANIFEST).read_bytes())
        weights = weights_from_bytes((folder / WEIGHTS).read_bytes(), manifest.layout)
        out.parent.mkdir(parents=True, exist_ok=True)
        match form:
            case "safetensors":
                _write_safetensors(manifest, weights, out)
            case "saved-model":
                _write_saved_model(manifest, weights, out)
            case "tflite":
                _write_tflite(manifest, weights, out)
            case _:
                msg = f"expected one of {', '.join(FORMATS)}, got {form!r}"
                raise ConfigError(msg)
    except OSError as error:
        msg = f"cannot write {folder} to {out}: {error}; is the one a model folder, and can the other be written?"
        raise UnavailableError(msg) from error
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def _write_safetensors(manifest: Manifest, weights: Vector, out: Path) -> None:
    """Each parameter under its name, and in the metadata what else belongs to the version."""
    from safetensors.numpy import save_file

    about = {
        "format": "nightjar",
        "version": str(manifest.version),
        "configuration": manifest.configuration,
        "vocabulary_sha256": manifest.vocabulary.sha256,
        "weights_sha256": manifest.weights.sha256,
    }
    save_file(manifest.layout.unflatten(weights), out, metadata=about)


def _write_saved_model(manifest: Manifest, weights: Vector, out: Path) -> None:
    import tensorflow as tf

    from models.inference import StepModule

    module = StepModule(manifest.shape, manifest.vocabulary_size, weights)
    tf.saved_model.save(module, str(out), signatures={"step": module.step.get_concrete_function()})


def _write_tflite(manifest: Manifest, weights: Vector, out: Path) -> None:
    from models.inference import build_inference

    out.write_bytes(build_inference(weights, manifest.shape, manifest.vocabulary_size))
