"""The model as the keyboard uses it: weights mapped from disk, and the state carried from word to word.

No TFLite runtime is loaded for this, and no weight of a version is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog

from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.core.prediction import Weights, advance, weights_of
from nightjar.edge_agent.keyboard.comparison import Comparison, compare
from nightjar.edge_agent.keyboard.floor import floor
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Floats, Predictor
from nightjar.edge_agent.shell.weights import mapped_weights, own_weights
from nightjar.models.compact_ngram import CompactNgram, read_ngram
from nightjar.models.keyboard import held_out
from nightjar.models.lexicon import WordList, read_lexicon
from nightjar.models.padding import word_ids
from nightjar.models.vocabulary import OOV, Vocabulary
from nightjar.wire.errors import NightjarError, UnavailableError

log = structlog.get_logger()

HELD_BACK = 0.1
"""Share of the messages that a comparison uses: what tasks let devices hold back unless they say otherwise."""

State = tuple[Floats, Floats]
"""h (D,) and c (H,), float32."""


@dataclass(frozen=True, slots=True)
class KeyboardModel:
    """Implements the keyboard's ``StepModel``."""

    weights: Weights
    vocabulary: Vocabulary
    version: int

    def start(self) -> State:
        """The state before anything was read."""
        hidden, embedding = self.weights.projection.shape
        return np.zeros(embedding, np.float32), np.zeros(hidden, np.float32)

    def step(self, token: int, state: State) -> tuple[Floats, State]:
        """Read one token; returns scores (V,) float32, that of OOV for all other words, and the state after it."""
        scores, h, c = advance(self.weights, token, *state)
        scores[OOV] = self.weights.embedding[OOV] @ h
        return scores, (h, c)


def load_best_model(model: Model) -> KeyboardModel:
    """Load the personal model of a version if the device has kept one as better, otherwise the version itself.

    Raises:
        RemoteProtocolError: the version's files cannot be used.
        UnavailableError: they are gone.
    """
    personal = model.personal_weights
    if personal.exists():
        try:
            return load_keyboard_model(model, personal)
        except NightjarError as error:
            # Perhaps truncated by a power failure; the next session makes another.
            log.warning("personal_model_unusable", code=error.code)
            personal.unlink(missing_ok=True)
    return load_keyboard_model(model)


def compare_versions(before: Model | None, now: Model | None, texts: Sequence[str]) -> Comparison:
    """Compare two versions in the messages that this device holds back from training; empty without two versions.

    Raises:
        NightjarError: a version's files cannot be used any more.
    """
    if before is None or now is None or before.manifest.version == now.manifest.version:
        return Comparison()
    earlier, later = Reader(load_keyboard_model(before)), Reader(load_keyboard_model(now))
    return compare(earlier, later, held_out(texts, HELD_BACK)[1])


def read_lexicon_of(model: Model, language: str) -> WordList | None:
    """The lexicon of a language that came with a version; None if none did, or it cannot be read any more."""
    path = model.lexicons.get(language)
    if path is None:
        return None
    try:
        return read_lexicon(path.read_bytes())
    except (OSError, NightjarError) as error:
        log.warning("lexicon_unusable", language=language, error=str(error))
        return None


def load_predictor(model: Model, texts: Sequence[str] = ()) -> Predictor:
    """Load the best model of a version, mixed with the n-gram model and the lexicons that came with it.

    Of these, what did not come or cannot be used is left out. The weights are learned from ``texts``, the user's
    messages, oldest first.

    Raises:
        RemoteProtocolError: the version's files cannot be used.
        UnavailableError: they are gone.
    """
    reader = Reader(load_best_model(model))
    return Mixture(reader, read_ngram_of(model), common_words_of(model, reader.vocabulary), texts)


def common_words_of(model: Model, vocabulary: Vocabulary) -> Floats | None:
    """The floor of :mod:`nightjar.edge_agent.keyboard.floor` from the lexicons that came with a version, if any did."""
    lists = (read_lexicon_of(model, language) for language in model.lexicons)
    return floor(vocabulary, (listed for listed in lists if listed is not None))


def read_ngram_of(model: Model) -> CompactNgram | None:
    """The n-gram model that came with a version; None if none did, or it cannot be used."""
    if model.ngram is None:
        return None
    try:
        return read_ngram(model.ngram.read_bytes(), word_ids(model.vocabulary.read_bytes()))
    except (OSError, NightjarError) as error:
        log.warning("ngram_model_unusable", error=str(error))
        return None


def load_keyboard_model(model: Model, personal: Path | None = None) -> KeyboardModel:
    """Load a model for predicting words, with its own weights or those in the file ``personal``.

    Raises:
        RemoteProtocolError: the files cannot be used.
        UnavailableError: the files are gone.
    """
    try:
        words = model.vocabulary.read_bytes()
    except OSError as error:
        msg = f"the vocabulary of model version {model.manifest.version} cannot be read: {error}"
        raise UnavailableError(msg) from error
    vector = mapped_weights(model) if personal is None else own_weights(model, personal)
    vocabulary = Vocabulary.from_bytes(words)
    weights = weights_of(vector, model.manifest.layout, vocabulary.size)
    return KeyboardModel(weights, vocabulary, model.manifest.version)
