"""Selects the words of a sent message that the keyboard learns as the user's own words.

These are names and jargon outside the model's vocabulary. The store counts and keeps the words. A word that was typed
once may be a slip, so it only completes its own beginning; typed twice, it is a word like any other. Never learned:
anything that contains a digit (codes, numbers), a single letter, or a run of characters too long to be a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from nightjar.models.vocabulary import WORD_PATTERN, words

LEARNED_FROM = 2
"""How often a word is typed until it is a word like any other."""
LONGEST = 30
"""Most characters of a word: about the length of the longest German words in use."""

_AS_WRITTEN = re.compile(WORD_PATTERN)
_ENDS_SENTENCE = frozenset(".!?…\n")


@dataclass(frozen=True, slots=True)
class OwnWord:
    """A word outside the vocabulary: in lower case, as written inside a sentence, and how often it was typed."""

    word: str
    written: str
    count: int


def own_words_in(text: str, known: Callable[[str], bool], *, begins: bool = True) -> list[tuple[str, str]]:
    """The words of a message that are worth counting.

    >>> own_words_in("Zorblax met Ada, code 4x7q. Zorblax!", {"met", "code"}.__contains__)
    [('zorblax', 'zorblax'), ('ada', 'Ada'), ('zorblax', 'zorblax')]

    Returns:
        Each occurrence: the word in lower case, and as it is written inside a sentence. A capital at the beginning of a
        sentence is ignored, unless the text does not begin one (``begins``).
    """
    occurrences = []
    text = text.replace("\u2019", "'")  # an editor's apostrophe
    for match in _AS_WRITTEN.finditer(text):
        word = "".join(words(match[0])).strip("'")
        if not 1 < len(word) <= LONGEST or any(c.isnumeric() for c in word) or known(word):
            continue
        first = begins and _begins_sentence(text, match.start())
        occurrences.append((word, word if first else match[0].strip("'")))
    return occurrences


def _begins_sentence(text: str, at: int) -> bool:
    """Whether a word at this place is the first of a sentence; looks back no further than to the word before it.

    >>> _begins_sentence("So. (Ada", 5), _begins_sentence("So, Ada", 4), _begins_sentence('"Ada', 1)
    (True, False, True)
    """
    while at > 0 and not (text[at - 1].isalnum() or text[at - 1] == "_"):
        at -= 1
        if text[at] in _ENDS_SENTENCE:
            return True
    return at == 0
