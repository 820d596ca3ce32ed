"""What the keyboard sees of a model: its ``step`` signature, with the state carried from word to word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_agent.ports import Floats, LoadProgram, Model, Program
from models.vocabulary import Vocabulary
from wire.errors import UnavailableError

State = tuple[Floats, Floats]
"""h (1, D) and c (1, H), float32."""


@dataclass(frozen=True, slots=True)
class KeyboardModel:
    """Implements ``StepModel`` of the keyboard. One thread at a time.

    Attributes:
        program: loaded with the weights of the version.
        vocabulary: the words that it knows.
        version: of the model.
        embedding: D.
        hidden: H.
    """

    program: Program
    vocabulary: Vocabulary
    version: int
    embedding: int
    hidden: int

    def start(self) -> State:
        """The state before anything was read."""
        return np.zeros((1, self.embedding), np.float32), np.zeros((1, self.hidden), np.float32)

    def step(self, token: int, state: State) -> tuple[Floats, State]:
        """Read one token; returns scores (V,) float32 and the state after it."""
        scores, h, c = self.program.step(token, *state)
        return scores, (h, c)


def load_keyboard_model(model: Model, load_program: LoadProgram) -> KeyboardModel:
    """Load a model for predicting words.

    Raises:
        RemoteProtocolError: the files cannot be used.
        UnavailableError: the files are gone.
    """
    try:
        words = model.vocabulary.read_bytes()
    except OSError as error:
        msg = f"the vocabulary of model version {model.manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error
    manifest = model.manifest
    vocabulary = Vocabulary.from_bytes(words)
    return KeyboardModel(load_program(model), vocabulary, manifest.version, manifest.embedding, manifest.hidden)
