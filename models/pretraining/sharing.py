"""Which words and sequences of words enough people typed. Pure.

A sequence is *shared* if at least so many people typed it. Every part of a shared sequence is shared, so the longest
shared sequence that ends at each word says everything; it is found by growing the sequences word by word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from nightjar.models.ngram import counted_people
from nightjar.models.vocabulary import BOS, EOS

Numbers = npt.NDArray[np.int64]


def people_by_word(messages: Iterable[Sequence[str]], people: Iterable[int]) -> dict[str, int]:
    """How many people typed each word.

    >>> people_by_word([["a", "b"], ["a"], ["a"]], [0, 0, 1])
    {'a': 2, 'b': 1}
    """
    typed: dict[str, set[int]] = {}
    for message, person in zip(messages, people, strict=True):
        for word in message:
            typed.setdefault(word, set()).add(person)
    return {word: len(who) for word, who in typed.items()}


def shared_lengths(
    messages: Sequence[Sequence[int]], people: Sequence[int] | Numbers, least: int, longest: int
) -> list[list[int]]:
    """Length of the longest shared sequence that ends at each target: the words of each message (ids), then EOS.

    The beginning of a message is a word of a sequence: a length of one more than the place of the target, counted from
    1, means everything from the beginning. Lengths are at most ``longest``; 0 is a word that too few people typed.

    >>> shared_lengths([[5, 6], [5, 7], [9]], [0, 1, 1], least=2, longest=3)
    [[2, 0, 1], [2, 0, 1], [0, 1]]
    """
    lengths = np.array([len(message) + 2 for message in messages], np.int64)
    tokens = np.fromiter(chain.from_iterable((BOS, *message, EOS) for message in messages), np.int64, lengths.sum())
    who = np.repeat(np.asarray(people, np.int64), lengths)
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(tokens)) - np.repeat(starts, lengths)
    vocabulary = int(tokens.max(initial=0)) + 1

    found = np.zeros(len(tokens), np.int64)
    ends, codes = np.arange(len(tokens)), tokens  # of all sequences of this length that may be shared
    for length in range(1, longest + 1):
        distinct, number_of_people = counted_people(codes, who[ends])
        rank = np.searchsorted(distinct, codes)
        shared = number_of_people[rank] >= least
        found[ends[shared]] = length
        # A longer one is shared only if it is so without its first word and without its last.
        of_end = np.full(len(tokens), -1, np.int64)
        of_end[ends[shared]] = rank[shared]
        longer = ends[shared]
        longer = longer[(place[longer] >= length) & (of_end[longer - 1] >= 0)]
        ends, codes = longer, of_end[longer - 1] * vocabulary + tokens[longer]
    return [found[start + 1 : start + length].tolist() for start, length in zip(starts, lengths, strict=True)]
