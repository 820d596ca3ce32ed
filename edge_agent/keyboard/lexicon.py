"""Finds words by what was typed of them: by their beginning, and one slip of the finger away.

What is typed and the words are compared *folded*: in lower case, without accents and apostrophes, because these are
what people leave out. Which of the found words is likely is not known here.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_MOST_LETTERS = 100
"""A script with more of them is typed by its sounds or strokes: a slip there is not one of its letters."""
_LAST = "\U0010ffff"
"""Sorts after every character: past all words with a prefix."""


def fold(word: str) -> str:
    """What remains of a word without case, accents and apostrophes.

    >>> fold("Don't"), fold("Café"), fold("Ёлка")
    ('dont', 'cafe', 'елка')
    """
    word = word.lower()
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.category(c).startswith("M"))
        word = word.replace("\u2019", "")
    return word.replace("'", "")


class Lexicon:
    """An index over numbered words.

    Args:
        words: each with its place in the sequence as its number.
    """

    def __init__(self, words: Sequence[str]) -> None:
        folded = sorted((fold(word), number) for number, word in enumerate(words))
        self._keys = [key for key, _ in folded]
        self._numbers = np.array([number for _, number in folded], np.int64)
        self._known = frozenset(self._keys)
        letters = sorted({letter for key in self._keys for letter in key})
        self._letters = letters if len(letters) <= _MOST_LETTERS else []

    def beginning_with(self, typed: str) -> Numbers:
        """Numbers of the words that begin as typed, ascending, (k,) int64.

        >>> Lexicon(["the", "don't", "then", "done"]).beginning_with("Don").tolist()
        [1, 3]
        """
        key = fold(typed)
        start, stop = bisect_left(self._keys, key), bisect_left(self._keys, key + _LAST)
        return np.sort(self._numbers[start:stop])

    def one_slip_away(self, typed: str) -> Numbers:
        """Numbers of the words that one slip turns into what was typed, ascending, (k,) int64.

        A slip is a missing, superfluous or wrong letter, or two letters that changed places (Damerau 1964).

        >>> Lexicon(["the", "hello", "then"]).one_slip_away("hte").tolist()
        [0]
        """
        found = [
            self._numbers[bisect_left(self._keys, key) : bisect_right(self._keys, key)]
            for key in self._known.intersection(_one_edit_away(fold(typed), self._letters))
        ]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _one_edit_away(word: str, letters: Iterable[str]) -> Iterator[str]:
    for at in range(len(word) + 1):
        left, right = word[:at], word[at:]
        if right:
            yield left + right[1:]
        if len(right) > 1 and right[0] != right[1]:
            yield left + right[1] + right[0] + right[2:]
        for letter in letters:
            yield left + letter + right
            if right and letter != right[0]:
                yield left + letter + right[1:]
