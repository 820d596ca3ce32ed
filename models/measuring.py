"""Measures a version on held-out examples. Runs in the coordinator's worker and needs TensorFlow.

A keyboard is measured by TensorFlow itself, on a GPU if there is one; every other model by the ``evaluate`` signature
of its program, whose ``rank`` is the model's metric.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from msgspec.structs import replace

from models.batches import Batches, pack
from models.corpora.tsv import tsv
from models.evaluation import MOST_HITS, best_words, evaluate
from models.keyboard import EVALUATION_ROWS
from models.manifest import KEYBOARD, Manifest
from models.places import Place, places
from models.task_types import task_type
from models.vocabulary import Vocabulary, words
from wire.parameters import ParameterLayout, Vector

Read = Callable[[str], bytes]
"""Returns an artifact by its hash."""


class Suggested(NamedTuple):
    """What a version suggests in one place of the held-out text, for people."""

    beginning: str
    meant: str
    suggested: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of a version on held-out examples.

    Attributes:
        top1: share of the counted targets that were predicted best, 0 to 1.
        top3: share among the best three.
        loss: mean per target, nats.
        hits: two bit fields over counted targets (:class:`models.evaluation.Metrics`).
        suggestions: what the version suggests; only of a keyboard.
    """

    top1: float
    top3: float
    loss: float
    hits: bytes = b""
    suggestions: tuple[Suggested, ...] = ()


class _HeldOut(NamedTuple):
    """A corpus, packed, and the places in it where people see what a version suggests."""

    vocabulary: Vocabulary
    batches: Batches
    places: list[Place]


class Measuring:
    """Measures versions; caches the packed examples.

    Args:
        read: returns an artifact by its hash.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._text = functools.lru_cache(maxsize=2)(self._read_text)
        self._rows = functools.lru_cache(maxsize=2)(_read_rows)

    def measure(self, manifest: Manifest, weights: Vector, path: Path) -> Measured:
        """The figures of weights (n,) float32.

        Raises:
            ConfigError: there is no plug-in for the task type, or the examples cannot be read.
        """
        if manifest.task_type == KEYBOARD:
            return self._keyboard(manifest, weights, path)
        # Versions of one model differ in what does not matter here.
        shape = replace(manifest, version=0, weights=manifest.program, transfers=(), bases=None)
        batches = self._rows(path, shape.encode(), self._read(manifest.vocabulary.sha256))
        return measure_program(self._read(manifest.program.sha256), manifest.layout, weights, batches)

    def _keyboard(self, manifest: Manifest, weights: Vector, path: Path) -> Measured:
        held = self._text(path, manifest.vocabulary.sha256, manifest.sequence_length)
        vocabulary, shape, size = held.vocabulary, manifest.shape, manifest.vocabulary_size
        found = evaluate(weights, shape, size, held.batches)
        best = best_words(weights, shape, size, [vocabulary.encode(each.beginning) for each in held.places])
        shown = tuple(
            Suggested(" ".join(place.beginning), place.meant, tuple(vocabulary.word(word) for word in three))
            for place, three in zip(held.places, best, strict=True)
        )
        return Measured(found.top1, found.top3, found.loss, found.hits, shown)

    def _read_text(self, path: Path, vocabulary_sha256: str, sequence_length: int) -> _HeldOut:
        vocabulary = Vocabulary.from_bytes(self._read(vocabulary_sha256))
        messages = [words(message) for user in tsv(path).users.values() for message in user]
        batches = pack([vocabulary.encode(message) for message in messages], EVALUATION_ROWS, sequence_length)
        return _HeldOut(vocabulary, batches, places(messages, vocabulary))


def _read_rows(path: Path, manifest: bytes, vocabulary: bytes) -> Batches:
    shape = msgspec.json.decode(manifest, type=Manifest)
    return task_type(shape.task_type).held_out(path, shape, vocabulary)


def measure_program(program: bytes, layout: ParameterLayout, weights: Vector, batches: Batches) -> Measured:
    """The figures of weights on packed rows; without any, every figure is 0.

    Args:
        program: the ``.tflite`` file, made by :mod:`models.automatic`.
        layout: layout of the n parameters.
        weights: (n,) float32.
        batches: the rows.
    """
    interpreter = Interpreter(model_content=program, num_threads=1)  # the same figures on all machines
    interpreter.get_signature_runner("write")(**layout.unflatten(weights))
    evaluate_rows = interpreter.get_signature_runner("evaluate")
    ranks, loss_sum = [np.zeros(0, np.float32)], 0.0
    for x, y in batches:
        found = evaluate_rows(x=x, y=y)
        ranks.append(found["rank"][found["wanted"] > 0])
        loss_sum += float(found["loss"].sum(dtype=np.float64))
    rank = np.concatenate(ranks)
    kept = rank[:: -(-rank.size // MOST_HITS) or 1]
    return Measured(
        top1=int(np.count_nonzero(rank < 1)) / max(rank.size, 1),
        top3=int(np.count_nonzero(rank < 3)) / max(rank.size, 1),
        loss=loss_sum / max(rank.size, 1),
        hits=np.packbits(kept < 1).tobytes() + np.packbits(kept < 3).tobytes(),
    )
