"""The Python language reference that ships inside every CPython: real English prose that needs no download.

A topic is a user, a sentence is a message. The text differs a little between Python versions, so figures measured on it
are comparable on one version only.
"""

from __future__ import annotations

import re

from models.corpora.corpus import Corpus
from models.vocabulary import words
from wire.errors import CorpusError

_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
_FEWEST_WORDS = 3
"""Shorter pieces are list marks, table cells and code."""


def pydoc() -> Corpus:
    """Sentences by topic.

    Raises:
        CorpusError: this Python was packaged without its topics.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        msg = "this Python has no pydoc_data.topics; install its standard library whole, or use another corpus"
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
