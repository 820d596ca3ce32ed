"""Counts the keystrokes that a keyboard saves: messages are typed again, letter by letter, through its suggestions.

A word costs its letters and a space. Once it is among the suggestions, it costs the letters so far and one tap. Recall
is counted before the first letter of each word. A user who looks at the suggestions after every letter saves as much;
a real one saves less, of every version alike.

Source: Trnka and McCoy 2008, "Evaluating Word Prediction: Framing Keystroke Savings".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nightjar.models.vocabulary import FIRST_WORD, Vocabulary, words

Suggest = Callable[[str], Sequence[str]]
"""Returns at most three words for the text before the caret, best first."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Counts of messages that were typed again.

    Attributes:
        words: words that recall counts; of these, so many were the first suggestion, and among the suggestions.
        letters: keystrokes without suggestions.
        keystrokes: keystrokes with them.
    """

    words: int = 0
    top1: int = 0
    top3: int = 0
    letters: int = 0
    keystrokes: int = 0

    def __add__(self, other: Replayed) -> Replayed:
        """Add field by field."""
        return Replayed(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))

    @property
    def saved(self) -> int:
        """Keystrokes saved."""
        return self.letters - self.keystrokes

    @property
    def saved_percent(self) -> float:
        """Keystrokes saved, of those without suggestions."""
        return 100 * self.saved / max(1, self.letters)


def replay(suggest: Suggest, message: str, vocabulary: Vocabulary | None = None) -> Replayed:
    """Type one message again, its words in lower case with single spaces between them.

    >>> def suggest(text):
    ...     return {"": ["the"], "the c": ["car", "cat"]}.get(text, ["x"])
    >>> replay(suggest, "The cat sat.")
    Replayed(words=3, top1=1, top3=1, letters=12, keystrokes=7)

    With a vocabulary, recall counts only the words in it; keystrokes count every word.
    """
    total, text = Replayed(), ""
    for word in words(message):
        counted = vocabulary is None or vocabulary.id_of(word) >= FIRST_WORD
        total += _typed(suggest, text, word, counted=counted)
        text += word + " "
    return total


def _typed(suggest: Suggest, text: str, word: str, *, counted: bool) -> Replayed:
    """Type a word after a text."""
    top1 = top3 = 0
    keystrokes = len(word) + 1
    for letters in range(len(word)):
        offered = [one.lower() for one in suggest(text + word[:letters])]
        if counted and not letters:
            top1, top3 = int(word in offered[:1]), int(word in offered)
        if word in offered:
            keystrokes = letters + 1
            break
    return Replayed(int(counted), top1, top3, len(word) + 1, keystrokes)


def newest(messages: Iterable[str], most_words: int) -> list[str]:
    """The newest messages, oldest first, that have at most so many words together.

    >>> newest(["a b c", "d", "e f"], 3)
    ['d', 'e f']
    """
    kept: list[str] = []
    for message in reversed([*messages]):
        most_words -= len(words(message))
        if most_words < 0:
            break
        kept.append(message)
    return kept[::-1]
