"""A model that trains in microseconds, with a real manifest, codec and frames.

It has the layout of the keyboard model in miniature, but training is least squares: each phone moves all parameters
towards its own optimum. Its purpose is that every report differs, and that the mean of the reports can be checked bit
for bit. How well it predicts does not depend on its weights: some versions are bad, to be found in their trials.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from nightjar.coordinator.ports import BlobStore
from nightjar.edge_agent.core.results import Evaluation, TrainStep
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Ids
from nightjar.models.configurations import lstm_layout
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.wire.identifiers import Sha256
from nightjar.wire.parameters import Vector, weights_from_bytes, weights_to_bytes

WORDS = tuple(f"word{number}" for number in range(36))
VOCABULARY = Vocabulary(WORDS)
EMBEDDING, HIDDEN = 4, 6
LAYOUT = lstm_layout(FIRST_WORD + len(WORDS), EMBEDDING, HIDDEN)
"""A layout of a few hundred parameters."""
PROGRAM = b"least squares"
BATCH_ROWS, SEQUENCE_LENGTH = 4, 8
RIGHT, RIGHT_IF_BAD = 0.5, 0.25
"""Share of the held-out words that a version predicts."""
STEPS = 4
"""Steps of every training; more than one, so that a stopped training may have done a part of them."""

_MORE_TEXTS = tuple(
    tuple(" ".join(WORDS[(number + first) % len(WORDS)] for number in range(12)) for first in range(start, start + 24))
    for start in (0, 12)
)
_TEXTS = tuple((" ".join(WORDS[start : start + 4]),) * count for count in (1, 2, 3, 5, 8) for start in (0, 8, 16, 24))


def messages_of(phone: int, *, many: bool) -> tuple[str, ...]:
    """The messages on a phone; ``many`` are enough to hold some out for an evaluation."""
    texts = _MORE_TEXTS if many else _TEXTS
    return texts[phone % len(texts)]


def first_manifest(artifacts: BlobStore) -> Manifest:
    """Store the artifacts of version 0; returns its manifest."""
    weights = weights_to_bytes(np.zeros(LAYOUT.size, np.float32))
    for data in (PROGRAM, weights, VOCABULARY.to_bytes()):
        artifacts.put(data)
    manifest = Manifest(
        version=0,
        configuration="least-squares",
        program=Artifact.of(PROGRAM),
        weights=Artifact.of(weights),
        vocabulary=Artifact.of(VOCABULARY.to_bytes()),
        layout=LAYOUT,
        batch_rows=BATCH_ROWS,
        sequence_length=SEQUENCE_LENGTH,
        hidden=HIDDEN,
        minimum_agent_version="0.1.0",
    )
    artifacts.put(manifest.encode())
    return manifest


class Shelf:
    """The models on phones, shared by all phones.

    The folder has the only real files: the vocabulary and bases, which a session reads by their paths.
    """

    def __init__(self, artifacts: BlobStore, folder: Path) -> None:
        self._artifacts = artifacts
        self._vocabulary = folder / "vocabulary.txt"
        self._vocabulary.write_bytes(VOCABULARY.to_bytes())
        self._models: dict[Sha256, Model] = {}
        self._weights: dict[str, Vector] = {}

    def model(self, sha256: Sha256) -> Model:
        """The model with this manifest.

        Raises:
            IntegrityError: the artifact does not exist.
        """
        if sha256 not in self._models:
            manifest = Manifest.decode(self._artifacts.get(sha256))
            nowhere = self._vocabulary.parent / "not-a-file"
            bases = None
            if manifest.bases is not None:
                bases = self._vocabulary.parent / manifest.bases.sha256
                bases.write_bytes(self._artifacts.get(manifest.bases.sha256))
            self._models[sha256] = Model(sha256, manifest, nowhere, nowhere, self._vocabulary, bases)
        return self._models[sha256]

    def weights(self, manifest: Manifest) -> Vector:
        """The weights of a version, (n,) float32; callers must not modify them."""
        name = manifest.weights.sha256
        if name not in self._weights:
            self._weights[name] = weights_from_bytes(self._artifacts.get(name), manifest.layout)
        return self._weights[name]


def is_bad(version: int, seed: int) -> bool:
    """Whether a version predicts less than the others: a third of them, but never the first."""
    return version > 0 and zlib.crc32(b"%d %d" % (seed, version)) % 3 == 0


def share_right(version: int, seed: int) -> float:
    """Share of the held-out words that a version predicts."""
    return RIGHT_IF_BAD if is_bad(version, seed) else RIGHT


class LeastSquares:
    """Implements :class:`nightjar.edge_agent.ports.Program`: a step moves weights towards ``optimum``, (n,) float32.

    ``right`` is the share of the words that it predicts.
    """

    def __init__(self, weights: Vector, optimum: Vector, right: float = RIGHT) -> None:
        self._right = right
        self._base = weights
        self._weights = weights
        self._optimum = optimum

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> TrainStep:  # noqa: ARG002 - the port's
        """One step of gradient descent on half the squared distance to the optimum."""
        gradient = self._weights - self._optimum
        norm = float(np.sqrt(np.square(gradient).sum()))
        if norm > clip_norm:
            gradient = gradient * np.float32(clip_norm / norm)
        self._weights = self._weights - np.float32(learning_rate) * gradient
        return TrainStep(0.5 * norm**2, float(np.count_nonzero(y)), 0.0, norm)

    def save(self) -> Vector:
        """The weights, (n,) float32."""
        return self._weights.copy()

    def restore(self, weights: Vector) -> None:
        """Load weights, (n,) float32, and make them the base."""
        self._base = self._weights = weights.copy()

    def reset(self) -> None:
        """Return to the base weights."""
        self._weights = self._base

    def delta(self) -> Vector:
        """The weights minus the base weights, (n,) float32."""
        return self._weights - self._base

    def evaluate(self, x: Ids, y: Ids) -> Evaluation:  # noqa: ARG002 - the port's
        """The figures of the share that was given, whatever the weights are."""
        targets = int(np.count_nonzero(y))
        right = int(self._right * targets)
        return Evaluation(loss_sum=float(targets), targets=targets, counted=targets, top1=right, top3=right)
