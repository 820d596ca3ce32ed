"""The common words of a language among the words of a model, from the frequencies in the language's lexicon.

They tell which languages a model speaks, and are the floor under its predictions
(:mod:`nightjar.edge_agent.core.mixture`): people write them everywhere, also where neither the model nor the n-gram
model has seen anything like it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nightjar.edge_agent.ports import Floats
from nightjar.models.lexicon import WordList
from nightjar.models.vocabulary import FIRST_WORD, OOV, Vocabulary

SPOKEN_SHARE = 0.75
"""A model speaks a language whose lexicon has this share of the model's commonest words. Measured on four English
texts: 0.90 to 0.97 for English, up to 0.61 for other languages."""
_LOOKED_AT = 500


def shares_in(vocabulary: Vocabulary, listed: WordList) -> Floats:
    """The share of each word in texts of a language, (V,) float32; 0 for words that its lexicon lacks."""
    shares = np.zeros(vocabulary.size, np.float32)
    for word, log_share in zip(listed.text.decode().split("\n"), listed.log_shares.tolist(), strict=False):
        number = vocabulary.id_of(word)
        if number >= FIRST_WORD:
            shares[number] = np.exp(log_share)
    return shares


def speaks(shares: Floats) -> bool:
    """Whether a model speaks a language of which it has these shares (:func:`shares_in`)."""
    commonest = shares[FIRST_WORD : FIRST_WORD + _LOOKED_AT] > 0
    return bool(commonest.size) and float(commonest.mean()) >= SPOKEN_SHARE


def floor(vocabulary: Vocabulary, lists: Iterable[WordList]) -> Floats | None:
    """Probability of each word, and of OOV, in the languages that a model speaks, (V,) float32.

    None without a lexicon of one.
    """
    spoken = [shares for shares in (shares_in(vocabulary, listed) for listed in lists) if speaks(shares)]
    if not spoken:
        return None
    mean: Floats = np.mean(spoken, axis=0, dtype=np.float32)
    mean /= max(1.0, float(mean.sum()))
    mean[OOV] = 1.0 - mean.sum()
    return mean
