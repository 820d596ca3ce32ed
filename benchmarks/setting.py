"""The models and texts that the benchmarks use: real programs, real batches, one seed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from edge_agent.ports import Model
from edge_agent.shell.model_files import exported_model
from models import corpora
from models.configurations import ModelConfiguration, configuration
from models.export import export_program
from models.folder import write_model_folder
from models.initial import initial_weights
from models.vocabulary import Vocabulary
from simulation.warm_start import full_vocabulary
from wire.parameters import ParameterLayout, Vector

BUILD = Path("build")
SEED = 7


@dataclass(frozen=True, slots=True)
class Setting:
    """One model, ready to run.

    Attributes:
        configuration: shape.
        vocabulary: of the full size that the configuration allows.
        model: the model's files, as they lie on a device.
        weights: (n,) float32, random.
        layout: of n parameters.
    """

    configuration: ModelConfiguration
    vocabulary: Vocabulary
    model: Model
    weights: Vector
    layout: ParameterLayout


@functools.cache
def setting(name: str, corpus: str = "personas") -> Setting:
    """A configuration at its full vocabulary size, on a corpus; words that the corpus lacks are made up.

    The speed of a step depends on the vocabulary's size and hardly on its words.
    """
    shape = configuration(name)
    text = corpora.load(corpus, SEED)
    vocabulary, _ = full_vocabulary((m for messages in text.users.values() for m in messages), shape.max_vocabulary)
    weights = initial_weights(shape, vocabulary.size, SEED)
    folder = BUILD / f"benchmark-{name}"
    program = export_program(shape, vocabulary.size, BUILD / "programs")
    write_model_folder(folder, shape, vocabulary, program, weights)
    model = exported_model(folder)
    return Setting(
        configuration=shape,
        vocabulary=vocabulary,
        model=model,
        weights=weights,
        layout=shape.layout(vocabulary.size),
    )
