"""Cuts the text before the caret as the model sees it, and writes suggested words in the typed case."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from nightjar.models.vocabulary import WORD_PATTERN, words

# A full stop inside "3.14" or "e.g" does not end a sentence; one before a space, or at the caret, does.
# What closes a quotation or a bracket after it belongs to the sentence that it ends.
_SENTENCE_END = re.compile(r"[.!?…。؟\u06d4।][\"'’‘)\]”“»«]*(?=\s|$)|\n")  # noqa: RUF001 - quotation marks are meant
_PREFIX = re.compile(rf"(?:{WORD_PATTERN})\Z")
_APOSTROPHES = str.maketrans("\u2019\u02bc", "''")
"""Signs that other keyboards and editors write for an apostrophe; inside words they are one."""
# A hyphen after a space begins an option: --recursive.
_STANDS_ALONE = re.compile(
    r"(?:^|[\s\"'“”‘„«»‹›(\[{¿¡—–]|(?<=[^\s-])--?)\Z"  # noqa: RUF001 - quotation marks and dashes are meant
)


@dataclass(frozen=True, slots=True)
class Typed:
    """The text before the caret, as the model sees it.

    Attributes:
        finished: words of the current sentence, in lower case.
        prefix: the typed part of the current word, exactly as typed.
        glued: whether the prefix is attached to a sign, as in ``@ada``, ``--all`` or ``example.org``, and so may not be
            an ordinary word.
    """

    finished: tuple[str, ...]
    prefix: str
    glued: bool = False


def sentences(text: str) -> list[str]:
    """The sentences of a text, at least one; the last one goes on up to the caret.

    >>> sentences("Pi is 3.14. And")
    ['Pi is 3.14', ' And']
    """
    return _SENTENCE_END.split(text)


def read_typed(text: str) -> Typed:
    """Cut the text before the caret into finished words and a prefix.

    >>> read_typed("Fine. And how are yo")
    Typed(finished=('and', 'how', 'are'), prefix='yo', glued=False)
    >>> read_typed("Ask @ad")
    Typed(finished=('ask',), prefix='ad', glued=True)
    """
    sentence = sentences(text)[-1]
    prefix = _PREFIX.search(sentence.translate(_APOSTROPHES))  # of the same length
    start = prefix.start() if prefix else len(sentence)
    return Typed(tuple(words(sentence[:start])), sentence[start:], not _STANDS_ALONE.search(sentence, 0, start))


def plain(prefix: str) -> str:
    """A typed prefix as words are listed: in lower case, composed, with plain apostrophes.

    >>> plain("Don\u2019")
    "don'"
    """
    return unicodedata.normalize("NFC", prefix.lower()).translate(_APOSTROPHES)


def in_case_of(word: str, prefix: str) -> str:
    """Write a word in the case in which its prefix was typed, and with the same apostrophe.

    >>> in_case_of("hello", "he"), in_case_of("hello", "He"), in_case_of("hello", "HE"), in_case_of("i'm", "I")
    ('hello', 'Hello', 'HELLO', "I'm")
    """
    other = next((sign for sign in "\u2019\u02bc" if sign in prefix), "'")
    word = word.replace("'", other)
    if len(prefix) > 1 and prefix.isupper():
        return word.upper()
    if prefix[:1].isupper():
        return word[:1].upper() + word[1:]
    return word
