"""Measures a version on held-out examples. Runs in the coordinator's worker and needs TensorFlow.

A keyboard is measured by TensorFlow itself, on a GPU if there is one; every other model by the ``evaluate`` signature
of its program, whose ``rank`` is the model's metric.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from msgspec.structs import replace

from nightjar.models.batches import Batches
from nightjar.models.corpora.tsv import tsv
from nightjar.models.evaluation import Metrics, best_words, evaluate, metrics_of
from nightjar.models.manifest import KEYBOARD, Manifest
from nightjar.models.padding import cropped
from nightjar.models.places import Place, places
from nightjar.models.task_types import task_type
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.parameters import ParameterLayout, Vector


class Suggested(NamedTuple):
    """What a version suggests in one place of the held-out text, for people."""

    beginning: str
    meant: str
    suggested: tuple[str, ...]


def measure(
    read: Callable[[str], bytes], manifest: Manifest, weights: Vector, path: Path
) -> tuple[Metrics, list[Suggested]]:
    """The figures of weights (n,) float32, and what they suggest; suggestions are only of a keyboard.

    ``read`` returns an artifact by its hash; ``path`` has the held-out examples.

    Raises:
        ConfigError: there is no plug-in for the task type, or the examples cannot be read.
    """
    # Versions of one model differ in what does not matter here.
    model = replace(manifest, version=0, weights=manifest.program, transfers=(), bases=None)
    vocabulary = read(manifest.vocabulary.sha256)
    batches = _packed(path, model, vocabulary)
    if manifest.task_type != KEYBOARD:
        return measure_program(read(manifest.program.sha256), manifest.layout, weights, batches), []
    shape, known = manifest.shape, Vocabulary.from_bytes(vocabulary)
    size, weights = known.size, cropped(weights, manifest.layout, known.size)
    shown = _places(path, known)
    best = best_words(weights, shape, size, [known.encode(place.beginning) for place in shown])
    suggestions = [
        Suggested(" ".join(place.beginning), place.meant, tuple(map(known.word, three)))
        for place, three in zip(shown, best, strict=True)
    ]
    return evaluate(weights, shape, size, batches), suggestions


@functools.lru_cache(maxsize=2)
def _packed(path: Path, model: Manifest, vocabulary: bytes) -> Batches:
    return task_type(model.task_type).held_out(path, model, vocabulary)


@functools.lru_cache(maxsize=2)
def _places(path: Path, vocabulary: Vocabulary) -> list[Place]:
    return places([words(message) for user in tsv(path).users.values() for message in user], vocabulary)


def measure_program(program: bytes, layout: ParameterLayout, weights: Vector, batches: Batches) -> Metrics:
    """The figures of weights (n,) float32 in a program of :mod:`nightjar.models.automatic`; without rows, all 0."""
    interpreter = Interpreter(model_content=program, num_threads=1)  # the same figures on all machines
    interpreter.get_signature_runner("write")(**layout.unflatten(weights))
    evaluate_rows = interpreter.get_signature_runner("evaluate")
    ranks, loss_sum = [np.zeros(0, np.float32)], 0.0
    for x, y in batches:
        found = evaluate_rows(x=x, y=y)
        ranks.append(found["rank"][found["wanted"] > 0])
        loss_sum += float(found["loss"].sum(dtype=np.float64))
    rank = np.concatenate(ranks)
    return metrics_of(rank, loss_sum / max(rank.size, 1))
