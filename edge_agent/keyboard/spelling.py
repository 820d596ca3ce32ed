"""How strange a text looks as a word of a language: a letter model of its lexicon.

A person who types "hte" hardly means a word, as no word begins with those letters; "gedit" may well be one. The model
counts the letters of the lexicon's words after the two before them, each word once; the counts are smoothed with those
after one letter (Witten and Bell 1991). Pure.
"""

from __future__ import annotations

import numpy as np

from nightjar.edge_agent.ports import Floats
from nightjar.models.lexicon import fold

_PRIOR = 4.0
"""Weight, in letters, of what one letter before says, beside the counts after two."""
_MOST_LETTERS = 64
"""A script with more signs gets no model: its table would take more memory than it is worth."""


class Spelling:
    r"""The letter model of a lexicon.

    >>> spelling = Spelling("then\nthem\nthis\n".encode())
    >>> spelling.strangeness("the") < spelling.strangeness("hte")
    True

    Args:
        text: the words in UTF-8, each ended by a line feed.
    """

    def __init__(self, text: bytes) -> None:
        points = np.frombuffer(fold(text.decode()).encode("utf-32-le"), np.uint32)
        letters = np.flatnonzero(np.bincount(points))
        codes = np.searchsorted(letters, points)
        self._codes = {chr(letter): code for code, letter in enumerate(letters.tolist())}
        count = len(letters)
        self._costs: Floats | None = None
        if not 1 < count <= _MOST_LETTERS:
            return
        end = self._codes["\n"]
        last = np.append(end, codes[:-1])
        before = np.where(last == end, end, np.append([end, end], codes[:-2])[: len(codes)])
        pairs = np.bincount(last * count + codes, minlength=count**2).reshape(count, count).astype(np.float32)
        triples = np.bincount((before * count + last) * count + codes, minlength=count**3).astype(np.float32)
        triples = triples.reshape(count, count, count)
        single = (pairs + 1.0 / count) / (pairs.sum(1, keepdims=True) + 1.0)
        shares = (triples + _PRIOR * single) / (triples.sum(2, keepdims=True) + _PRIOR)
        self._costs = -np.log(shares)
        self._mean = float(self._costs[before, last, codes].mean())

    def strangeness(self, word: str) -> float:
        """How much less probable a word's letters are than those of a usual word of its length, in nats.

        0 without a model; a letter that no word has is the strangest of all.
        """
        if self._costs is None:
            return 0.0
        before = last = self._codes["\n"]
        cost, worst = 0.0, float(self._costs.max())
        folded = f"{fold(word)}\n"
        for letter in folded:
            code = self._codes.get(letter)
            cost += worst if code is None else float(self._costs[before, last, code])
            before, last = last, self._codes["\n"] if code is None else code
        return cost - self._mean * len(folded)
