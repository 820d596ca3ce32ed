"""The pre-trained models that come with Nightjar, with which a fleet starts (``models/pretrained``).

``python -m nightjar.models pretrain`` makes them (:mod:`nightjar.models.pretraining`). The folder of a language has for
each configuration NAME, ``vocabulary-NAME.txt``, ``ngram-NAME.bin`` and ``weights-NAME.f16``: the flat vector of all
parameters in little-endian float16. ``made_from.json`` says from what they were made, ``README.md`` how.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from nightjar.models.configurations import configuration
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import Vector

PRETRAINED = Path(__file__).parent / "pretrained"
MADE_FROM = "made_from.json"
README = "README.md"
NAMES = ("gboard", "tiny")
"""Configurations that have pre-trained weights."""


def vocabulary_name(name: str) -> str:
    """File name of a configuration's vocabulary."""
    return f"vocabulary-{name}.txt"


def ngram_name(name: str) -> str:
    """File name of a configuration's n-gram model."""
    return f"ngram-{name}.bin"


def weights_name(name: str) -> str:
    """File name of a configuration's weights."""
    return f"weights-{name}.f16"


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the counted words of people outside that are the first, or among the first three; 0 to 1."""

    top1: float
    top3: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What one configuration knows of the text of people outside."""

    counted: int  # words of the vocabulary, of which recall is the share
    weights: Recall  # as shipped
    unrounded: Recall  # in float32
    ngram: Recall  # the compact one, as shipped
    trigram: Recall  # a whole Kneser-Ney trigram of the same text, for comparison


class MadeFrom(msgspec.Struct, frozen=True, kw_only=True):
    """``made_from.json``: from what a folder was made.

    Attributes:
        before: ISO date before which all text was written; None if the corpus has no times.
        text_sha256: of the corpus file, later text included.
        used_sha256: of the messages before the date, each as "user TAB text LF".
        source: the text, its authors, licence and address.
        command: what made the folder.
        seed: of weights and order.
        people, messages, words: of the text used.
        outside_people, outside_messages: on which recall was measured: people whose first message is not before the
            date.
        least_people: how many people typed each n-gram, and each target of the weights.
        least_people_of_words: how many people typed each word that is not common in the language.
        recall: by configuration; empty if nobody is outside.
    """

    before: str | None
    text_sha256: str
    used_sha256: str
    source: str
    command: str
    seed: int
    people: int
    messages: int
    words: int
    outside_people: int
    outside_messages: int
    least_people: int
    least_people_of_words: int
    recall: dict[str, Figures]


@dataclass(frozen=True, slots=True)
class Shipped:
    """A folder of pre-trained models."""

    folder: Path
    made_from: MadeFrom

    @property
    def before(self) -> str | None:
        """The date before which all text was written."""
        return self.made_from.before

    @property
    def text_sha256(self) -> str:
        """SHA-256 of the corpus file."""
        return self.made_from.text_sha256

    def vocabulary(self, name: str) -> Vocabulary:
        """The vocabulary of a configuration.

        Raises:
            ConfigError: there is none.
        """
        return Vocabulary.from_bytes(self._read(name, vocabulary_name(name)))

    def ngram(self, name: str) -> bytes:
        """The n-gram model of a configuration, a file of :mod:`nightjar.models.compact_ngram`.

        Raises:
            ConfigError: there is none.
        """
        return self._read(name, ngram_name(name))

    def weights(self, name: str) -> Vector:
        """The weights of a configuration, (n,) float32.

        Raises:
            ConfigError: there are none.
        """
        found = np.frombuffer(self._read(name, weights_name(name)), "<f2").astype(np.float32)
        size = configuration(name).layout(self.vocabulary(name).size).size
        if found.size != size:
            msg = (
                f"{self.folder / weights_name(name)}: expected {size} weights, got {found.size}; install Nightjar again"
            )
            raise ConfigError(msg)
        return found

    def _read(self, name: str, file: str) -> bytes:
        try:
            return (self.folder / file).read_bytes()
        except FileNotFoundError as error:
            msg = (
                f"there are no pre-trained weights for the model {name!r}, only for {' and '.join(NAMES)}; "
                f"give --corpus to train it, or take one of these"
            )
            raise ConfigError(msg) from error


def shipped(language: str = "en") -> Shipped:
    """The pre-trained models of a language (ISO 639 code).

    Raises:
        ConfigError: there are none.
    """
    return opened(PRETRAINED / language)


def opened(folder: Path) -> Shipped:
    """The pre-trained models in a folder that ``pretrain`` made.

    Raises:
        ConfigError: it is none.
    """
    try:
        return Shipped(folder, msgspec.json.decode((folder / MADE_FROM).read_bytes(), type=MadeFrom))
    except (OSError, msgspec.MsgspecError) as error:
        msg = f"there are no pre-trained models in {folder}: {error}; 'python -m nightjar.models pretrain' makes them"
        raise ConfigError(msg) from error
