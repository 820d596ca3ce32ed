"""Takes the initial model from a folder as :mod:`models.folder` writes it, and trusts nothing in it."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from coordinator.ports import BlobStore
from models.folder import MANIFEST, PROGRAM, VOCABULARY, WEIGHTS, lexicon_name, write_files
from models.lexicon import read_lexicon
from models.manifest import Artifact, Manifest
from models.vocabulary import Vocabulary
from wire.errors import ConfigError, RemoteProtocolError
from wire.parameters import weights_from_bytes


def import_model(folder: Path, artifacts: BlobStore) -> Manifest:
    """Store the model of a folder as version 0.

    Args:
        folder: as ``python -m models export`` writes it.
        artifacts: where its files go.

    Returns:
        Its manifest, with version 0.

    Raises:
        ConfigError: a file is missing, or does not have the hash that the manifest gives.
    """
    manifest, parts = _read_model(folder)
    for data in (*parts, manifest.encode()):
        artifacts.put(data)
    return manifest


def check_model(folder: Path) -> Manifest:
    """See whether a folder could be imported; its manifest.

    Raises:
        ConfigError: as :func:`import_model`.
    """
    return _read_model(folder)[0]


def export_version(sha256: str, artifacts: BlobStore, folder: Path) -> Manifest:
    """Write a version as a folder that :func:`import_model` takes; there it is the first version.

    Args:
        sha256: of the version's manifest.
        artifacts: where its files are.
        folder: made if it is not there.

    Returns:
        The manifest that was written.

    Raises:
        IntegrityError: an artifact is missing or damaged.
        UnavailableError: the folder cannot be written.
    """
    held = Manifest.decode(artifacts.get(sha256))
    # How devices came to these weights is of no use elsewhere.
    manifest = structs.replace(held, version=0, transfers=(), mask=None)
    write_files(
        folder,
        manifest,
        {
            PROGRAM: artifacts.get(held.program.sha256),
            WEIGHTS: artifacts.get(held.weights.sha256),
            VOCABULARY: artifacts.get(held.vocabulary.sha256),
            **{lexicon_name(each.language): artifacts.get(each.file.sha256) for each in held.lexicons},
        },
    )
    return manifest


def _read_model(folder: Path) -> tuple[Manifest, tuple[bytes, ...]]:
    try:
        manifest = Manifest.decode(_read(folder / MANIFEST))
        program = _verified(folder / PROGRAM, manifest.program)
        weights = _verified(folder / WEIGHTS, manifest.weights)
        vocabulary = _verified(folder / VOCABULARY, manifest.vocabulary)
        lexicons = [_verified(folder / lexicon_name(each.language), each.file) for each in manifest.lexicons]
        for each in lexicons:
            read_lexicon(each)
        weights_from_bytes(weights, manifest.layout)
        size = Vocabulary.from_bytes(vocabulary).size
    except RemoteProtocolError as error:
        msg = f"task.model: {folder} does not hold a model that can be used: {error}; export it again"
        raise ConfigError(msg) from error
    if size != manifest.vocabulary_size:
        msg = f"task.model: {folder} has a manifest for {manifest.vocabulary_size} word ids and a vocabulary of {size}"
        raise ConfigError(msg)
    if manifest.version != 0:
        msg = f"task.model: expected the initial version 0 in {folder}, got version {manifest.version}; export it again"
        raise ConfigError(msg)
    return manifest, (program, weights, vocabulary, *lexicons)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = (
            f"task.model: cannot read {path}: {error.strerror or error}; 'python -m models export' makes such a folder"
        )
        raise ConfigError(msg) from error


def _verified(path: Path, artifact: Artifact) -> bytes:
    data = _read(path)
    found = Artifact.of(data)
    if found != artifact:
        msg = (
            f"task.model: {path} has the sha256 {found.sha256} and {found.size_bytes} bytes, its manifest says "
            f"{artifact.sha256} and {artifact.size_bytes}; export the model again"
        )
        raise ConfigError(msg)
    return data
