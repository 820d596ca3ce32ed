"""The fallback predictor while there is no model: the most common words of chat in a few languages.

It follows Zipf's law: the k-th most common word is 1/k as likely as the most common one, whatever the previous words
are. It also stands in when a model fails. It knows no grammar and is replaced by the first model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np

from nightjar.edge_agent.ports import Floats
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary


@dataclass(frozen=True, slots=True)
class Unigram:
    """Implements :class:`nightjar.edge_agent.ports.Predictor` from an ordered list of words alone.

    The most common words come first; ``version`` is that of the model whose vocabulary this is, None for our own list.
    """

    vocabulary: Vocabulary
    version: int | None = None

    def scores(self, finished: Sequence[str]) -> Floats:  # noqa: ARG002 - it does not matter what went before
        """Scores by Zipf's law, (V,) float32; special tokens have score minus infinity."""
        scores = np.full(self.vocabulary.size, -np.inf, np.float32)
        scores[FIRST_WORD:] = -np.log(np.arange(1, self.vocabulary.size - FIRST_WORD + 1, dtype=np.float32))
        return scores


_LISTS: dict[str, str] = tomllib.loads(resources.files(__package__).joinpath("common_words.toml").read_text("utf-8"))
LANGUAGES = tuple(code for code in _LISTS if code != "any")
"""ISO 639 codes of the languages with a list of their own."""


def code_of(language: str) -> str:
    """The ISO 639 code in a language's tag; empty if the language is not known.

    >>> code_of("de-AT"), code_of("und")
    ('de', '')
    """
    code = language.lower().split("-")[0]
    return "" if code == "und" else code


def common_words(language: str) -> Unigram:
    """The fallback predictor for a language.

    >>> common_words("de-AT").vocabulary.words[:2], common_words("xx").vocabulary.words
    (('ich', 'du'), ('ok', 'haha', 'hm'))

    ``language`` is a tag such as ``en`` or ``de-AT``; for an unknown one, only words used everywhere are offered.
    """
    words = _LISTS.get(code_of(language), _LISTS["any"])
    return Unigram(Vocabulary(tuple(dict.fromkeys(words.split()))))
