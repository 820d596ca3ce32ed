"""Recall on each phone's held-out messages before and after, because one phone can dominate a mean over all words.

Runs the program's own ``evaluate`` signature in this process, without TensorFlow.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from edge_agent.shell.model_files import exported_model
from edge_agent.shell.tflite import TfliteProgram, load_program
from models import corpora
from models.batches import Batches, pack
from models.manifest import Manifest
from models.vocabulary import Vocabulary, words
from simulation.demo.configuration import HELD_OUT
from simulation.demo.reading import artifact
from wire.parameters import Vector, weights_from_bytes


def recall_by_phone(folder: Path, url: str, manifest: str) -> dict[str, tuple[float, float]]:
    """Top-1 recall of the first and of a later version on each phone's held-out messages.

    Args:
        folder: folder of the run, with the first model and the held-out messages.
        url: URL of the coordinator.
        manifest: sha256 of the later version's manifest.

    Returns:
        phone -> recall (before, after), 0 to 1; phones without a counted target are skipped.

    Raises:
        UnavailableError: the later version cannot be fetched.
    """
    first = exported_model(folder / "model")
    later = Manifest.decode(artifact(url, manifest))
    weights = weights_from_bytes(artifact(url, later.weights.sha256), later.layout)
    vocabulary = Vocabulary.from_bytes(first.vocabulary.read_bytes())
    held_out: dict[str, Batches] = {}
    for phone, messages in corpora.load(str(folder / HELD_OUT), 0).users.items():
        ids = [vocabulary.encode(words(message)) for message in messages]
        batches = pack(ids, later.batch_rows, later.sequence_length)
        if batches.counted_targets:
            held_out[phone] = batches
    program = load_program(first)
    found: dict[str, list[float]] = defaultdict(list)
    for version in (program.save(), weights):
        for phone, batches in held_out.items():
            found[phone].append(_top1(program, version, batches))
    return {phone: (before, after) for phone, (before, after) in found.items()}


def _top1(program: TfliteProgram, weights: Vector, batches: Batches) -> float:
    program.restore(weights)
    scores = [program.evaluate(x, y) for x, y in batches]
    return sum(s.top1 for s in scores) / sum(s.counted for s in scores)
