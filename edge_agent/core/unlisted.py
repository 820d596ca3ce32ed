"""How many of a person's words are outside the vocabulary.

A name or a word of one's trade stands beside the words of the model with this share, of which the words that the person
typed before have a part, and all other words of the language the rest. The share begins with that of people of whom
nothing is known, and moves with every message.
"""

from __future__ import annotations

from collections.abc import Iterable

from nightjar.models.vocabulary import FIRST_WORD, Vocabulary, words

UNLISTED_SHARE = 0.08
"""Share of typed words outside a vocabulary, of people of whom nothing is known."""
PRIOR_WORDS = 200.0
"""Typed words that the first share counts for."""
OWN_WORDS = 100.0
"""Typed words outside the vocabulary at which the person's own words get half of the share, and new ones the other."""


class UnlistedShare:
    """The share of typed words outside a vocabulary; ``texts`` are messages of the person."""

    def __init__(self, vocabulary: Vocabulary, texts: Iterable[str] = ()) -> None:
        self._vocabulary = vocabulary
        self._unlisted, self._typed = UNLISTED_SHARE * PRIOR_WORDS, PRIOR_WORDS
        for text in texts:
            self.learn(text)

    def learn(self, text: str) -> None:
        """Count the words of a message."""
        ids = self._vocabulary.encode(words(text))
        self._unlisted += sum(word < FIRST_WORD for word in ids)
        self._typed += len(ids)

    @property
    def share(self) -> float:
        """The share now, above 0 and below 1."""
        return self._unlisted / self._typed
