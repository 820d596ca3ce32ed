"""Remembers which words were offered while one word is typed, and not picked.

Somebody who sees their word among the suggestions picks it. Whoever goes on typing wants another word, or does not look
at the suggestions. So a word that was passed over becomes less probable, by the chance that nobody looked, and another
gets its place; but one that is by far the most probable stays for those who look later. How often a word was passed
over does not matter: who does not look once does not look at the next letter either. Nothing is remembered once another
word is typed.
"""

from __future__ import annotations

from collections.abc import Sequence

OVERLOOKED = 4.0
"""What it costs a word that it was passed over, in nats: one word in fifty-five is typed without looking."""

PLACES = 3
"""Words of an answer that are taken for shown: programs ask for more, to leave out what is typed already."""


class Offers:
    """What was offered for each beginning of the word that is being typed.

    >>> offers = Offers()
    >>> offers.note(("good",), "", ["morning", "luck"])
    >>> offers.note(("good",), "m", ["morning", "man"])
    >>> sorted(offers.passed_over(("good",), "mo")), sorted(offers.passed_over(("good",), "m"))
    (['luck', 'man', 'morning'], ['luck', 'morning'])
    """

    def __init__(self) -> None:
        self._finished: tuple[str, ...] = ()
        self._offered: list[tuple[str, frozenset[str]]] = []

    def passed_over(self, finished: Sequence[str], prefix: str) -> frozenset[str]:
        """The words, in lower case, that were offered for a shorter beginning of the same word.

        ``finished`` are the words before it in the sentence.
        """
        if tuple(finished) != self._finished:
            return frozenset()
        return frozenset().union(*(offered for shorter, offered in self._offered if _begins(shorter, prefix)))

    def note(self, finished: Sequence[str], prefix: str, offered: Sequence[str]) -> None:
        """Remember what was offered; what was offered for other words or longer beginnings is forgotten."""
        kept = self._offered if tuple(finished) == self._finished else []
        self._finished = tuple(finished)
        self._offered = [one for one in kept if _begins(one[0], prefix)]
        shown = [word.lower() for word in offered if word != prefix][:PLACES]
        self._offered.append((prefix, frozenset(shown)))


def _begins(shorter: str, prefix: str) -> bool:
    return len(shorter) < len(prefix) and prefix.startswith(shorter)
