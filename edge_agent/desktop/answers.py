"""Reads the suggester's answers, which any program of this user might send, into events of the typing state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightjar.edge_agent.desktop.typing_events import WordsSuggested

MOST_WORDS = 10
MOST_WORD_CHARACTERS = 64


def words_in(number: int, answer: Mapping[str, Any] | None) -> WordsSuggested:
    """The words of an answer to request ``number``; none if it is no answer.

    >>> words_in(3, {"words": ["you", "the"], "version": 12, "reason": "", "prefix": "", "space_takes": False})
    WordsSuggested(number=3, words=('you', 'the'), prefix='', takes=False)
    >>> words_in(3, {"words": "you"}).words
    ()
    """
    nothing = WordsSuggested(number, (), "")
    if answer is None or not isinstance(found := answer.get("words"), list):
        return nothing
    prefix, takes = answer.get("prefix"), answer.get("space_takes")
    if not isinstance(prefix, str) or not isinstance(takes, bool) or not _is_beginning(prefix):
        return nothing
    words = tuple(word for word in found[:MOST_WORDS] if _is_word(word))
    corrects = words != () and words[0] == found[0] != prefix
    return WordsSuggested(number, words, prefix, takes and corrects)


def _is_beginning(prefix: str) -> bool:
    """Whether it is at most one word: a chosen word takes its place."""
    return len(prefix) <= MOST_WORD_CHARACTERS and not any(map(str.isspace, prefix))


def _is_word(word: object) -> bool:
    return isinstance(word, str) and 0 < len(word) <= MOST_WORD_CHARACTERS and word.isprintable()


def paused_in(answer: Mapping[str, Any] | None) -> bool | None:
    """Whether everything is paused, as an answer to ``status`` or ``pause`` says; None if it does not."""
    paused = None if answer is None else answer.get("paused")
    return paused if isinstance(paused, bool) else None
