"""Splits a corpus into the private text of phones and public text, and holds out part of the private text.

Some users become phones. The text of all others is public: the vocabulary and a warm start may be made from it. The
text of phones is never public, and the last part of each phone's messages is held out for evaluation.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from nightjar.models.corpora.corpus import Corpus
from nightjar.wire.errors import CorpusError

HELD_OUT_SHARE = 0.2
BUSIEST = 2
"""n phones are drawn from the ``BUSIEST * n`` users with the most messages. Real corpora have a long tail of users with
hardly a batch of text; federated training on phones with 50 messages made most of them worse."""
FEWEST_MESSAGES = 5
"""With fewer, no whole message can be held out."""


@dataclass(frozen=True, slots=True)
class Participant:
    """One user whose text is on a phone."""

    user: str  # name in the corpus
    typed: tuple[str, ...]  # messages typed on the phone, oldest first
    held_out: tuple[str, ...]  # the last messages, for evaluation; not on the phone


@dataclass(frozen=True, slots=True)
class Split:
    """A corpus, split: the participants by phone number, and the messages of all other users."""

    phones: tuple[Participant, ...]
    public: tuple[str, ...]


def split(corpus: Corpus, phones: int, seed: int, most_messages: int | None = None) -> Split:
    """Choose the phones at random among the users with the most messages, and use the last ``most_messages`` of each.

    Raises:
        CorpusError: too few users with enough messages, or no user left for public text.
    """
    if phones < 1 or (most_messages is not None and most_messages < FEWEST_MESSAGES):
        msg = f"expected at least 1 phone and {FEWEST_MESSAGES} messages a phone, got {phones} and {most_messages}"
        raise CorpusError(msg)
    usable = [user for user, messages in corpus.users.items() if len(messages) >= FEWEST_MESSAGES]
    busiest = sorted(usable, key=lambda user: -len(corpus.users[user]))[: BUSIEST * phones]
    generator = np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(b"phones")]))
    chosen = [busiest[i] for i in generator.permutation(len(busiest))[:phones]]
    if len(chosen) < phones:
        msg = (
            f"{phones} phones need {phones} users with at least {FEWEST_MESSAGES} messages, corpus {corpus.name!r} has "
            f"{len(chosen)}; use fewer phones or more text"
        )
        raise CorpusError(msg)
    private = set(chosen)
    public = tuple(m for user, messages in corpus.users.items() if user not in private for m in messages)
    if not public:
        msg = (
            f"all {len(corpus.users)} users of corpus {corpus.name!r} would be phones, but the vocabulary is made from "
            f"the text of others; use at most {len(corpus.users) - 1} phones"
        )
        raise CorpusError(msg)
    return Split(tuple(_phone(user, corpus.users[user], most_messages) for user in chosen), public)


def _phone(user: str, messages: tuple[str, ...], most: int | None) -> Participant:
    used = messages if most is None else messages[-most:]
    held_out = max(1, round(HELD_OUT_SHARE * len(used)))
    return Participant(user, used[:-held_out], used[-held_out:])
