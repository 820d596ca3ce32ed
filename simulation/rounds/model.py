"""A model small enough to train in microseconds, behind the real manifest, codec and frames.

It has the keyboard model's parameters in miniature, but each phone simply pulls all of them towards a point of its own:
least squares, whose federated solution is known. What it predicts is nothing; what it is good for is that every report
differs, and that the mean of the reports can be checked to the last bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coordinator.ports import BlobStore
from edge_agent.ports import Evaluation, Ids, Model, TrainStep
from models.configurations import lstm_layout
from models.manifest import Artifact, Manifest
from models.vocabulary import FIRST_WORD, Vocabulary
from wire.errors import LocalProtocolError
from wire.identifiers import Sha256
from wire.parameters import Vector, weights_from_bytes, weights_to_bytes

WORDS = tuple(f"word{number}" for number in range(36))
VOCABULARY = Vocabulary(WORDS)
EMBEDDING, HIDDEN = 4, 6
LAYOUT = lstm_layout(FIRST_WORD + len(WORDS), EMBEDDING, HIDDEN)
"""Of a few hundred parameters."""
PROGRAM = b"least squares"
BATCH_ROWS, SEQUENCE_LENGTH = 4, 8
STEPS = 4
"""Of every training, so that one that is told to stop can have done some of them."""


def first_manifest(artifacts: BlobStore) -> Manifest:
    """Version 0, its artifacts stored."""
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
    """Models as phones hold them; the same for all phones, because nothing about a model is a phone's own.

    Args:
        artifacts: where the coordinator serves them from.
        folder: where the one real file lies: the vocabulary, which a session reads by its path.
    """

    def __init__(self, artifacts: BlobStore, folder: Path) -> None:
        self._artifacts = artifacts
        self._vocabulary = folder / "vocabulary.txt"
        self._vocabulary.write_bytes(VOCABULARY.to_bytes())
        self._models: dict[Sha256, Model] = {}
        self._weights: dict[str, Vector] = {}

    def model(self, sha256: Sha256) -> Model:
        """A model by its manifest.

        Raises:
            IntegrityError: there is no such artifact.
        """
        if sha256 not in self._models:
            manifest = Manifest.decode(self._artifacts.get(sha256))
            nowhere = self._vocabulary.parent / "not-a-file"
            self._models[sha256] = Model(sha256, manifest, nowhere, nowhere, self._vocabulary)
        return self._models[sha256]

    def weights(self, manifest: Manifest) -> Vector:
        """(n,) float32, the weights of a version; not to be written to."""
        name = manifest.weights.sha256
        if name not in self._weights:
            self._weights[name] = weights_from_bytes(self._artifacts.get(name), manifest.layout)
        return self._weights[name]


class LeastSquares:
    """Implements :class:`edge_agent.ports.Program`: one step moves the weights towards ``optimum``.

    Args:
        weights: (n,) float32, of the base version.
        optimum: (n,) float32, where this phone's examples pull.
    """

    def __init__(self, weights: Vector, optimum: Vector) -> None:
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
        """Take weights."""
        self._base = self._weights = weights.copy()

    def reset(self) -> None:
        """Go back to the base."""
        self._weights = self._base

    def delta(self) -> Vector:
        """(n,) float32, how the weights moved."""
        return self._weights - self._base

    def evaluate(self, x: Ids, y: Ids) -> Evaluation:  # noqa: ARG002 - the port's
        """A session does not evaluate."""
        msg = "least squares predicts no words"
        raise LocalProtocolError(msg)
