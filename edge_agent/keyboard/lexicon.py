"""An index that finds words by a typed prefix, or within one typing slip (edit distance 1).

Typed text and words are compared *folded* (:func:`nightjar.models.lexicon.fold`): in lower case, without accents and
apostrophes. The index does not rank the words. A hundred thousand packed words take less than 3 MB: the text of the
words, the offsets of their ends, and the hashes of the folded words.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from zlib import crc32

import numpy as np
import numpy.typing as npt

from nightjar.models.lexicon import fold

Numbers = npt.NDArray[np.int64]

_MOST_LETTERS = 100
"""A script with more letters is typed by sounds or strokes, so slips are not searched for."""
_LAST = "\U0010ffff"
"""The highest code point: sorts after all words with a given prefix."""


class PackedWords(Sequence[str]):
    """A sequence of words stored in one string of bytes, which takes a tenth of the memory of a list.

    ``text`` is UTF-8, each word ended by a line feed.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")).astype(np.int32)

    @property
    def lines(self) -> str:
        """The words, each ended by a line feed."""
        return self._text.decode()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> str:  # type: ignore[override]  # nobody takes slices
        start = self._ends[number - 1] + 1 if number else 0
        return self._text[start : self._ends[number]].decode()


class Lexicon:
    """An index over numbered words.

    A word's number is its index in ``words``; ``in_order`` says that they are sorted by their folded forms.
    """

    def __init__(self, words: Sequence[str], *, in_order: bool = False) -> None:
        self.words = words
        self._numbers = np.arange(len(words), dtype=np.int32)
        lines = words.lines if isinstance(words, PackedWords) else "".join(f"{word}\n" for word in words)
        folded = fold(lines)  # all at once: in a fifth of the time
        if not in_order:
            keys = folded.split("\n")
            self._numbers = np.array(sorted(range(len(words)), key=keys.__getitem__), np.int32)
        hashes = np.fromiter((crc32(line[:-1]) for line in BytesIO(folded.encode())), np.uint32, len(words))
        self._by_hash = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._by_hash]
        letters = sorted(set(folded) - {"\n"})
        self._letters = letters if len(letters) <= _MOST_LETTERS else []

    def beginning_with(self, typed: str) -> Numbers:
        """Numbers of the words that begin with the typed text, ascending, (k,) int64.

        >>> Lexicon(["the", "don't", "then", "done"]).beginning_with("Don").tolist()
        [1, 3]
        """
        key = fold(typed)
        start = bisect_left(self._numbers, key, key=self._folded)
        stop = bisect_left(self._numbers, key + _LAST, key=self._folded)
        return np.sort(self._numbers[start:stop]).astype(np.int64)

    def at_most_one_slip_away(self, typed: str) -> Numbers:
        """Numbers of the words that at most one slip turns into the typed text, ascending, (k,) int64.

        A slip is a missing, extra or wrong letter, or two transposed letters (Damerau 1964).

        >>> Lexicon(["the", "hello", "then"]).at_most_one_slip_away("hte").tolist()
        [0]
        """
        return self._folding_to({fold(typed), *one_edit_away(fold(typed), self._letters)})

    def spelt_alike(self, typed: str) -> Numbers:
        """Numbers of the words that the typed text is without accents and apostrophes, ascending, (k,) int64.

        >>> Lexicon(["the", "don't", "dont"]).spelt_alike("dont").tolist()
        [1, 2]
        """
        return self._folding_to([fold(typed)])

    def number_of(self, word: str) -> int | None:
        """The number of a word, exactly as written; None if the index does not have it.

        >>> Lexicon(["the", "don't"]).number_of("don't"), Lexicon(["the", "don't"]).number_of("dont")
        (1, None)
        """
        return next((n for n in self._folding_to([fold(word)]).tolist() if self.words[n] == word), None)

    def numbers_of(self, words: Iterable[str]) -> Numbers:
        """Numbers of those words that the index has, exactly as written, (k,) int64 ascending."""
        wanted = frozenset(words)
        numbers = self._folding_to({fold(word) for word in wanted}).tolist()
        return np.array([number for number in numbers if self.words[number] in wanted], np.int64)

    def _folded(self, number: int) -> str:
        return fold(self.words[number])

    def _folding_to(self, keys: Iterable[str]) -> Numbers:
        """Numbers of the words with these folded forms, ascending."""
        listed = list(keys)
        hashes = np.fromiter((crc32(key.encode()) for key in listed), np.uint32, len(listed))
        starts, stops = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        numbers = [
            number
            for at in np.flatnonzero(stops > starts).tolist()
            for number in self._by_hash[starts[at] : stops[at]].tolist()
            if self._folded(number) == listed[at]  # two words may have one hash
        ]
        return np.sort(np.array(numbers, np.int64))


def one_edit_away(word: str, letters: Iterable[str]) -> Iterator[str]:
    """Every text that one slip makes of a word, some more than once.

    >>> sorted(set(one_edit_away("at", "s")))
    ['a', 'as', 'ast', 'ats', 'sat', 'st', 't', 'ta']
    """
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
