"""Converts a version to common formats: SavedModel, safetensors, and an int8 ``.tflite`` for prediction.

The input is a model folder (:mod:`nightjar.models.folder`), whose hashes are not checked again. SavedModel and
``.tflite`` need TensorFlow, which is imported only for these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from nightjar.models.folder import MANIFEST, VOCABULARY, WEIGHTS
from nightjar.models.manifest import KEYBOARD, Manifest
from nightjar.models.padding import cropped, cropped_layout, word_ids
from nightjar.wire.errors import UnavailableError
from nightjar.wire.parameters import Vector, weights_from_bytes


def exchange(folder: Path, form: str, out: Path) -> int:
    """Convert the model in a folder to one of :data:`FORMATS`: a file, or a folder (saved-model). Returns its bytes.

    Raises:
        RemoteProtocolError: the folder holds no model.
        UnavailableError: the model cannot be read, converted or written.
    """
    try:
        manifest = Manifest.decode((folder / MANIFEST).read_bytes())
        weights = weights_from_bytes((folder / WEIGHTS).read_bytes(), manifest.layout)
        if manifest.task_type == KEYBOARD:
            size = word_ids((folder / VOCABULARY).read_bytes())
            weights, layout = cropped(weights, manifest.layout, size), cropped_layout(manifest.layout, size)
            manifest = replace(manifest, layout=layout)  # no other program will read padded rows
        out.parent.mkdir(parents=True, exist_ok=True)
        _WRITERS[form](manifest, weights, out)
    except OSError as error:
        msg = f"cannot write {folder} to {out}: {error}; give a model folder and a path that can be written"
        raise UnavailableError(msg) from error
    files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def _write_safetensors(manifest: Manifest, weights: Vector, out: Path) -> None:
    """Write each parameter under its name; the metadata identifies the version."""
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

    from nightjar.models.inference import StepModule

    module = StepModule(manifest.shape, manifest.vocabulary_size, weights)
    tf.saved_model.save(module, str(out), signatures={"step": module.step.get_concrete_function()})


def _write_tflite(manifest: Manifest, weights: Vector, out: Path) -> None:
    from nightjar.models.inference import build_inference

    out.write_bytes(build_inference(weights, manifest.shape, manifest.vocabulary_size))


_WRITERS: Mapping[str, Callable[[Manifest, Vector, Path], None]] = {
    "safetensors": _write_safetensors,
    "saved-model": _write_saved_model,
    "tflite": _write_tflite,
}
FORMATS = tuple(_WRITERS)
NEED_TENSORFLOW = frozenset({"saved-model", "tflite"})
