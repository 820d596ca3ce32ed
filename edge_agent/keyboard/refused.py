"""Remembers which words were offered while one word is typed, and not picked.

Somebody who sees their word among the suggestions picks it, or goes on typing because they did not look. So each time
that a word was offered and passed over makes it less probable, by the chance that it was overlooked. Another word gets
its place. Nothing is remembered once another word is typed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

OVERLOOKED = 3.0
"""What each time that a word was passed over costs it, in nats: one word in twenty is overlooked."""


class Offers:
    """What was offered for each beginning of the word that is being typed.

    >>> offers = Offers()
    >>> offers.note(("good",), "", ["morning", "luck"])
    >>> offers.note(("good",), "m", ["morning", "man"])
    >>> sorted(offers.passed_over(("good",), "mo").items()), offers.passed_over(("good",), "")
    ([('luck', 1), ('man', 1), ('morning', 2)], {})
    """

    def __init__(self) -> None:
        self._finished: tuple[str, ...] = ()
        self._offered: list[tuple[str, Collection[str]]] = []

    def passed_over(self, finished: Sequence[str], prefix: str) -> Mapping[str, int]:
        """How often each word, in lower case, was offered for a shorter beginning of the same word.

        ``finished`` are the words before it in the sentence.
        """
        if tuple(finished) != self._finished:
            return {}
        counts: Counter[str] = Counter()
        for shorter, offered in self._offered:
            if _begins(shorter, prefix):
                counts.update(offered)
        return dict(counts)

    def note(self, finished: Sequence[str], prefix: str, offered: Sequence[str]) -> None:
        """Remember what was offered; what was offered for other words or longer beginnings is forgotten."""
        kept = self._offered if tuple(finished) == self._finished else []
        self._finished = tuple(finished)
        self._offered = [one for one in kept if _begins(one[0], prefix)]
        self._offered.append((prefix, frozenset(word.lower() for word in offered)))


def _begins(shorter: str, prefix: str) -> bool:
    return len(shorter) < len(prefix) and prefix.startswith(shorter)
