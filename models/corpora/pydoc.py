"""The Python language reference that ships with CPython: real English prose without a download.

A topic is a user, a sentence is a message. The text differs between Python versions, so compare metrics only on the
same version.
"""

from __future__ import annotations

import re

from nightjar.models.corpora.corpus import Corpus
from nightjar.models.vocabulary import words
from nightjar.wire.errors import CorpusError

_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
_FEWEST_WORDS = 3
"""Shorter pieces are mostly list bullets, table cells and code."""


def pydoc() -> Corpus:
    """Sentences by topic.

    Raises:
        CorpusError: this Python was packaged without its topics.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        msg = "this Python has no pydoc_data.topics; install the complete standard library, or use another corpus"
        raise CorpusError(msg) from error
    users = {name: _sentences(text) for name, text in sorted(topics.items())}
    return Corpus("pydoc", {name: messages for name, messages in users.items() if messages})


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(
        sentence
        for paragraph in text.split("\n\n")
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split()))
        if len(words(sentence)) >= _FEWEST_WORDS
    )
