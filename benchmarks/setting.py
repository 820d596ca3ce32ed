"""Models and texts for the benchmarks: real programs, real batches, one seed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.models import corpora
from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.export import export_program
from nightjar.models.folder import write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.models.word_lists import compiled
from nightjar.simulation.warm_start import full_vocabulary
from nightjar.wire.parameters import Vector

BUILD = Path("build")
SEED = 7
LANGUAGE = "en"


@dataclass(frozen=True, slots=True)
class Setting:
    """One model, ready to run."""

    configuration: ModelConfiguration
    vocabulary: Vocabulary  # of the maximum size
    model: Model  # its files, as on a device
    weights: Vector  # (n,) float32, random


@functools.cache
def setting(name: str) -> Setting:
    """A model at its maximum vocabulary size, from ``personas``; the words that it lacks are invented.

    The speed of a step depends on the size of the vocabulary and hardly on its words.
    """
    shape = configuration(name)
    text = corpora.load("personas", SEED)
    vocabulary, _ = full_vocabulary((m for messages in text.users.values() for m in messages), shape.max_vocabulary)
    weights = initial_weights(shape, vocabulary.size, SEED)
    folder = BUILD / f"benchmark-{name}"
    program = export_program(shape, vocabulary.size, BUILD / "programs")
    lexicons = {LANGUAGE: compiled(LANGUAGE)}
    write_model_folder(folder, shape, vocabulary, program, weights, lexicons, _largest_ngram(vocabulary.size))
    return Setting(shape, vocabulary, exported_model(folder), weights)


def _largest_ngram(vocabulary_size: int) -> bytes:
    """An n-gram model of the maximum size, from synthetic text whose words follow Zipf's law."""
    ranks = np.random.default_rng(SEED).zipf(1.2, (100_000, 8))
    ids = np.minimum(ranks + FIRST_WORD - 1, vocabulary_size - 1)
    return compile_ngram(ids.tolist(), vocabulary_size)
