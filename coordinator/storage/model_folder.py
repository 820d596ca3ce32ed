"""Import and export of a model folder (format: :mod:`nightjar.models.folder`); an imported folder is fully verified."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import structs

from nightjar.coordinator.learning.strategies import last_average
from nightjar.coordinator.ports import BlobStore
from nightjar.models.compact_ngram import read_ngram
from nightjar.models.folder import MANIFEST, NGRAM, PROGRAM, VOCABULARY, WEIGHTS, lexicon_name, write_files
from nightjar.models.lexicon import read_lexicon
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.padding import word_ids
from nightjar.models.task_types import task_type
from nightjar.wire.errors import ConfigError, RemoteProtocolError, rewording
from nightjar.wire.parameters import weights_from_bytes, weights_to_bytes


def import_model(folder: Path, artifacts: BlobStore) -> Manifest:
    """Store the model of a folder that ``python -m nightjar.models export`` wrote, as version 0; returns its manifest.

    Raises:
        ConfigError: a file is missing, its hash differs from the manifest's, or the model cannot be used.
    """
    manifest, parts = _read_model(folder)
    for data in (*parts, manifest.encode()):
        artifacts.put(data)
    return manifest


def check_model(folder: Path) -> Manifest:
    """Check that a folder could be imported; returns its manifest.

    Raises:
        ConfigError: a file is missing, its hash differs from the manifest's, or the model cannot be used.
    """
    return _read_model(folder)[0]


def export_version(sha256: str, artifacts: BlobStore, folder: Path, before: Sequence[str] = ()) -> Manifest:
    """Write a version as a folder that :func:`import_model` accepts; in the folder it is version 0.

    Args:
        sha256: hash of the version's manifest.
        artifacts: store of its files.
        folder: created if missing.
        before: hashes of the manifests of versions before it; the mean of all their weights is written.

    Returns:
        The written manifest.

    Raises:
        ConfigError: a version before it is another model.
        IntegrityError: an artifact is missing or damaged.
        UnavailableError: the folder cannot be written.
    """
    held = Manifest.decode(artifacts.get(sha256))
    weights = artifacts.get(held.weights.sha256)
    if before:
        weights = _mean_weights([held, *(Manifest.decode(artifacts.get(each)) for each in before)], artifacts)
    # How devices got these weights (transfers, bases) does not matter to another coordinator.
    manifest = structs.replace(held, version=0, weights=Artifact.of(weights), transfers=(), bases=None)
    write_files(
        folder,
        manifest,
        {
            PROGRAM: artifacts.get(held.program.sha256),
            WEIGHTS: weights,
            VOCABULARY: artifacts.get(held.vocabulary.sha256),
            **{lexicon_name(each.language): artifacts.get(each.file.sha256) for each in held.lexicons},
            **({} if held.ngram is None else {NGRAM: artifacts.get(held.ngram.sha256)}),
        },
    )
    return manifest


def _mean_weights(versions: Sequence[Manifest], artifacts: BlobStore) -> bytes:
    layout = versions[0].layout
    mean = np.zeros(layout.size)
    for number, each in enumerate(versions, start=1):
        if each.layout != layout:
            msg = (
                f"--average: version {each.version} is another model than version {versions[0].version}; average fewer"
            )
            raise ConfigError(msg)
        weights = weights_from_bytes(artifacts.get(each.weights.sha256), layout)
        mean = last_average(mean, weights, number, window=number)
    return weights_to_bytes(mean.astype(np.float32))


def _read_model(folder: Path) -> tuple[Manifest, tuple[bytes, ...]]:
    try:
        manifest = Manifest.decode(_read(folder / MANIFEST))
        program = _verified(folder / PROGRAM, manifest.program)
        weights = _verified(folder / WEIGHTS, manifest.weights)
        vocabulary = _verified(folder / VOCABULARY, manifest.vocabulary)
        lexicons = [_verified(folder / lexicon_name(each.language), each.file) for each in manifest.lexicons]
        for each in lexicons:
            read_lexicon(each)
        ngrams = [] if manifest.ngram is None else [_verified(folder / NGRAM, manifest.ngram)]
        for each in ngrams:
            read_ngram(each, word_ids(vocabulary))
        weights_from_bytes(weights, manifest.layout)
        task_type(manifest.task_type).check(manifest, vocabulary)
    except RemoteProtocolError as error:
        msg = f"task.model: {folder} does not hold a model that can be used: {error}; export it again"
        raise ConfigError(msg) from error
    if manifest.version != 0:
        msg = f"task.model: expected the initial version 0 in {folder}, got version {manifest.version}; export it again"
        raise ConfigError(msg)
    return manifest, (program, weights, vocabulary, *lexicons, *ngrams)


def _read(path: Path) -> bytes:
    with rewording(
        ConfigError, f"task.model: cannot read {path}", "'python -m nightjar.models export' makes such a folder"
    ):
        return path.read_bytes()


def _verified(path: Path, artifact: Artifact) -> bytes:
    data = _read(path)
    actual = Artifact.of(data)
    if actual != artifact:
        msg = (
            f"task.model: {path} has the sha256 {actual.sha256} and {actual.size_bytes} bytes, its manifest says "
            f"{artifact.sha256} and {artifact.size_bytes}; export the model again"
        )
        raise ConfigError(msg)
    return data
