"""What a person wrote after the same three words before, also words that no model has.

A phrase that was sent twice is foreseen: of ``n`` times that the three words were written, ``c`` went on with one word,
which then gets the probability ``(c - 1/2) / (n + 1)``. Once is no habit. The counts are held in memory only: they are
rebuilt from the example store and disappear when it is wiped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from math import log
from zlib import crc32

from nightjar.edge_agent.core.own_history import LATEST_MESSAGES
from nightjar.models.vocabulary import words

CONTEXT = 3
HABIT = 2
"""How often a word follows until it is foreseen."""


class Phrases:
    """The words that followed each three.

    >>> phrases = Phrases(["my safe word is zorblax", "My safe word is Zorblax"])
    >>> list(phrases.after(["my", "safe", "word", "is"]))
    ['zorblax']
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        # One string for each context takes a fraction of the memory of a counter.
        self._followers: dict[int, str] = {}
        for text in deque(texts, LATEST_MESSAGES):
            self.learn(text)

    def learn(self, text: str) -> None:
        """Count one message."""
        typed = words(text)
        for place, word in enumerate(typed):
            for context in _contexts(typed[:place]):
                self._followers[context] = f"{self._followers.get(context, '')} {word}"

    def after(self, finished: Sequence[str]) -> dict[str, float]:
        """The words that are foreseen after these, with the logarithms of their probabilities."""
        for context in _contexts(finished):
            followers = self._followers.get(context, "").split()
            if followers:
                counted = Counter(followers)
                return {w: log((c - 0.5) / (len(followers) + 1)) for w, c in counted.items() if c >= HABIT}
        return {}


def _contexts(finished: Sequence[str]) -> Iterator[int]:
    """The context, as a number, which two of may share by a chance of one in four thousand million; none if short."""
    if len(finished) >= CONTEXT:
        yield crc32(" ".join(finished[-CONTEXT:]).encode())
