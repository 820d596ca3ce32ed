"""Places in messages at which a user is shown the model's suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nightjar.models.vocabulary import FIRST_WORD, Vocabulary

SHORTEST, LONGEST = 4, 16
"""Fewest and most words of a message with a place: enough context, and still readable at a glance."""


class Place(NamedTuple):
    """A place in a message: the words before it, and the word that the user wrote there."""

    beginning: list[str]
    meant: str


def places(messages: Sequence[list[str]], vocabulary: Vocabulary, most: int = 10) -> list[Place]:
    """The middles of a few messages, spread evenly over all, where the vocabulary has the next word.

    >>> places([["see", "you", "on", "monday"]], Vocabulary(("on",)))
    [Place(beginning=['see', 'you'], meant='on')]
    """
    middles = [
        Place(message[: len(message) // 2], message[len(message) // 2])
        for message in messages
        if SHORTEST <= len(message) <= LONGEST and vocabulary.id_of(message[len(message) // 2]) >= FIRST_WORD
    ]
    return middles[:: -(-len(middles) // most) or 1]
