"""What is offered as long as there is no model: the commonest words of chat in a few languages.

A predictor like any other, of Zipf's law: the k-th commonest word is 1/k as likely as the commonest, whatever went
before. It also stands in when a model fails. It knows no language's grammar and is replaced by the first model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from edge_agent.ports import Floats
from models.vocabulary import FIRST_WORD, Vocabulary


@dataclass(frozen=True, slots=True)
class Unigram:
    """Implements :class:`edge_agent.ports.Predictor` from an ordered list of words alone.

    Attributes:
        vocabulary: the commonest word first.
        version: of the model whose vocabulary it is; None for a list of our own.
    """

    vocabulary: Vocabulary
    version: int | None = None

    def scores(self, finished: Sequence[str]) -> Floats:  # noqa: ARG002 - it does not matter what went before
        """Zipf's law, (V,) float32; specials are impossible."""
        scores = np.full(self.vocabulary.size, -np.inf, np.float32)
        scores[FIRST_WORD:] = -np.log(np.arange(1, self.vocabulary.size - FIRST_WORD + 1, dtype=np.float32))
        return scores


def common_words(language: str) -> Unigram:
    """The predictor of a language without a model.

    >>> common_words("de-AT").vocabulary.words[:2], common_words("xx").vocabulary.words
    (('ich', 'du'), ('ok', 'haha', 'hm'))

    Args:
        language: a tag such as ``en`` or ``de-AT``; of an unknown one only what is said everywhere is offered.
    """
    lists: dict[str, str] = tomllib.loads(resources.files(__package__).joinpath("common_words.toml").read_text("utf-8"))
    words = lists.get(language.lower().split("-")[0], lists["any"])
    return Unigram(Vocabulary(tuple(dict.fromkeys(words.split()))))
