"""Finds the versions of the model that lie on this device's disk (:mod:`nightjar.edge_agent.shell.model_files`)."""

from __future__ import annotations

from pathlib import Path

from nightjar.edge_agent.model import Model
from nightjar.host.files import read_file
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import NightjarError, RemoteProtocolError
from nightjar.wire.identifiers import Sha256, sha256

CURRENT, ANNOUNCED, FIRST = "current", "announced", "first"
"""Names of the files that name manifests."""


def announced(folder: Path) -> Model | None:
    """The version that the keyboard has; the newest one if none was announced yet."""
    return named_by(folder, ANNOUNCED) or named_by(folder, CURRENT)


def named_by(folder: Path, pointer: str) -> Model | None:
    """The version that a file names; None if there is none, or it is not complete."""
    try:
        return opened(folder, sha256(read_file(folder / pointer).decode().strip()))
    except (OSError, ValueError, NightjarError):
        # Nothing was fetched yet, or the files were tampered with: an incomplete model is no model.
        return None


def opened(folder: Path, name: Sha256, weights: Path | None = None) -> Model:
    """The model with a manifest; its weights are on the disk unless another path is given."""
    manifest = Manifest.decode(read_file(folder / name))
    weights = weights or folder / manifest.weights.sha256
    files = {folder / each.sha256: each for each in (manifest.program, manifest.vocabulary)}
    for path, artifact in (files | {weights: manifest.weights}).items():
        if path.stat().st_size != artifact.size_bytes:
            msg = f"{path}: expected {artifact.size_bytes} bytes, got {path.stat().st_size}"
            raise RemoteProtocolError(msg, code="manifest")
    lexicons = {each.language: folder / each.file.sha256 for each in manifest.lexicons}
    ngram = None if manifest.ngram is None else folder / manifest.ngram.sha256
    return Model(
        name,
        manifest,
        program=folder / manifest.program.sha256,
        weights=weights,
        vocabulary=folder / manifest.vocabulary.sha256,
        bases=None if manifest.bases is None else folder / manifest.bases.sha256,
        lexicons={language: path for language, path in lexicons.items() if path.exists()},
        ngram=ngram if ngram is not None and ngram.exists() else None,
    )
