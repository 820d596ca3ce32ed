"""An index that finds words by a typed prefix, or within one typing slip (edit distance 1).

Typed text and words are compared *folded*: in lower case, without accents and apostrophes, because people leave these
out. The index does not rank the words.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

_MOST_LETTERS = 100
"""A script with more letters is typed by sounds or strokes, so slips are not searched for."""
_LAST = "\U0010ffff"
"""The highest code point: sorts after all words with a given prefix."""


def fold(word: str) -> str:
    """A word in lower case without accents and apostrophes.

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
        words: the words; a word's number is its index in the sequence.
    """

    def __init__(self, words: Sequence[str]) -> None:
        folded = sorted((fold(word), number) for number, word in enumerate(words))
        self._keys = [key for key, _ in folded]
        self._numbers = np.array([number for _, number in folded], np.int64)
        self._known = frozenset(self._keys)
        letters = sorted({letter for key in self._keys for letter in key})
        self._letters = letters if len(letters) <= _MOST_LETTERS else []

    def beginning_with(self, typed: str) -> Numbers:
        """Numbers of the words that begin with the typed text, ascending, (k,) int64.

        >>> Lexicon(["the", "don't", "then", "done"]).beginning_with("Don").tolist()
        [1, 3]
        """
        key = fold(typed)
        start, stop = bisect_left(self._keys, key), bisect_left(self._keys, key + _LAST)
        return np.sort(self._numbers[start:stop])

    def one_slip_away(self, typed: str) -> Numbers:
        """Numbers of the words that one slip turns into the typed text, ascending, (k,) int64.

        A slip is a missing, extra or wrong letter, or two transposed letters (Damerau 1964).

        >>> Lexicon(["the", "hello", "then"]).one_slip_away("hte").tolist()
        [0]
        """
        matches = [
            self._numbers[bisect_left(self._keys, key) : bisect_right(self._keys, key)]
            for key in self._known.intersection(_one_edit_away(fold(typed), self._letters))
        ]
        return np.unique(np.concatenate(matches)) if matches else np.zeros(0, np.int64)


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
