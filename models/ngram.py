"""An interpolated Kneser-Ney trigram, the baseline for the LSTM.

Source: Chen and Goodman 1999, "An empirical study of smoothing techniques for language modeling", section 4: absolute
discounting with one discount per order, lower orders from continuation counts. The first word of a message has no left
context to count, so after BOS the lower order uses plain counts.

Specials are contexts and have probability mass like any word, but are never suggested and never counted as targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nightjar.models.ranking import ranks
from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class NgramRecall(NamedTuple):
    """Top-1 and top-3 recall over the counted targets, 0 to 1, and the number of counted targets."""

    top1: float
    top3: float
    counted: int


@dataclass(frozen=True, slots=True, eq=False)
class Trigram:
    """The probability of every word after each context."""

    vocabulary_size: int  # V
    unigram: Reals  # (V,) probability of each word
    bigrams: Ids  # (b,) int64, sorted: ``v * V + w`` for each w that followed v
    bigram_scores: Reals  # (b,) probability of w after v
    word_mass: Reals  # (V,) probability mass after v of all other words, distributed as in ``unigram``
    trigrams: Ids  # (t,) int64, sorted: ``(u * V + v) * V + w``
    trigram_scores: Reals  # (t,) probability of w after u v
    contexts: Ids  # (n,) int64, sorted: ``u * V + v``
    pair_mass: Reals  # (n,) probability mass after u v of all other words, distributed as after v
    bigram_counts: Ids  # (b,) how often w follows v in the text
    trigram_counts: Ids  # (t,) how often w follows u v

    def after(self, before: int, last: int) -> Reals:
        """Probabilities (V,) of the next word after two ids; ``BOS`` twice at the beginning of a message."""
        size = self.vocabulary_size
        scores: Reals = self.word_mass[last] * self.unigram
        start, stop = np.searchsorted(self.bigrams, [last * size, (last + 1) * size])
        scores[self.bigrams[start:stop] % size] = self.bigram_scores[start:stop]
        pair = before * size + last
        at = int(np.searchsorted(self.contexts, pair))
        if at < len(self.contexts) and self.contexts[at] == pair:
            scores *= self.pair_mass[at]
            start, stop = np.searchsorted(self.trigrams, [pair * size, (pair + 1) * size])
            scores[self.trigrams[start:stop] % size] = self.trigram_scores[start:stop]
        return scores

    def recall(self, messages: Sequence[Sequence[int]]) -> NgramRecall:
        """Recall of the three most probable words at each target of some messages; ties in order of ids."""
        return recall_of(self.after, messages)


def recall_of(after: Callable[[int, int], npt.NDArray[np.floating]], messages: Sequence[Sequence[int]]) -> NgramRecall:
    """Recall of a model that gives the probabilities of every word after two others, as :meth:`Trigram.after` does."""
    before, last, word = (ids.tolist() for ids in _stream(messages))
    found = [_rank(after(u, v), w) for u, v, w in zip(before, last, word, strict=True) if w >= FIRST_WORD]
    counted = max(len(found), 1)
    return NgramRecall(sum(r < 1 for r in found) / counted, sum(r < 3 for r in found) / counted, len(found))


def _rank(probabilities: npt.NDArray[np.floating], word: int) -> float:
    """How many words are suggested before this one; infinite for a word without probability."""
    scores = probabilities[FIRST_WORD:]
    if scores[word - FIRST_WORD] == 0:
        return math.inf
    return float(ranks(scores[None], np.array([word - FIRST_WORD]))[0])


def train_trigram(messages: Sequence[Sequence[int]], vocabulary_size: int) -> Trigram:
    """Count n-grams and smooth the counts; without any word, every probability is 0.

    Messages are word ids, without BOS and EOS.
    """
    size = vocabulary_size
    before, last, word = _stream(messages)
    inside = last != BOS  # a first word has no pair before it
    trigrams, trigram_counts = np.unique(
        (before[inside] * size + last[inside]) * size + word[inside], return_counts=True
    )
    begins, begin_counts = np.unique(last[~inside] * size + word[~inside], return_counts=True)
    continued, pair_at, continuations = np.unique(trigrams % (size * size), return_inverse=True, return_counts=True)
    in_text = np.bincount(pair_at, weights=trigram_counts, minlength=len(continued)).astype(np.int64)
    bigrams = np.concatenate([begins, continued])
    order = np.argsort(bigrams)
    bigrams, bigram_counts = bigrams[order], np.concatenate([begin_counts, continuations])[order]

    words, endings = np.unique(bigrams % size, return_counts=True)
    unigram = np.zeros(size)
    unigram[words] = endings / endings.sum()
    bigram_scores, word_mass = _interpolate(bigrams // size, bigram_counts, unigram[bigrams % size], size)

    contexts, pair_of = np.unique(trigrams // size, return_inverse=True)
    lower_scores = bigram_scores[np.searchsorted(bigrams, trigrams % (size * size))]
    trigram_scores, pair_mass = _interpolate(pair_of, trigram_counts, lower_scores, len(contexts))
    return Trigram(
        size,
        unigram,
        bigrams,
        bigram_scores,
        word_mass,
        trigrams,
        trigram_scores,
        contexts,
        pair_mass,
        bigram_counts=np.concatenate([begin_counts, in_text])[order],
        trigram_counts=trigram_counts,
    )


class NgramPeople(NamedTuple):
    """How many people typed each n-gram of a :class:`Trigram`."""

    words: Ids  # (V,)
    bigrams: Ids  # (b,), in the order of ``Trigram.bigrams``
    trigrams: Ids  # (t,), in the order of ``Trigram.trigrams``


def ngram_people(messages: Sequence[Sequence[int]], people: Sequence[int] | Ids, vocabulary_size: int) -> NgramPeople:
    """Count the people of every n-gram of some messages; ``people`` has the number of each message's person.

    >>> ngram_people([[4], [4], [5]], [0, 1, 1], 6).words.tolist()
    [0, 0, 2, 0, 2, 1]
    """
    size = vocabulary_size
    before, last, word = _stream(messages)
    who = np.repeat(
        np.array([person for person, message in zip(people, messages, strict=True) if len(message)], np.int64),
        [len(message) + 1 for message in messages if len(message)],
    )
    inside = last != BOS
    word_codes, word_people = counted_people(word, who)
    of_words = np.zeros(size, np.int64)
    of_words[word_codes] = word_people
    _, of_bigrams = counted_people(last * size + word, who)
    _, of_trigrams = counted_people(((before * size + last) * size + word)[inside], who[inside])
    return NgramPeople(of_words, of_bigrams, of_trigrams)


def counted_people(codes: Ids, people: Ids) -> tuple[Ids, Ids]:
    """The distinct codes, ascending, and how many people have each; both arguments (n,) int64.

    >>> [each.tolist() for each in counted_people(np.array([7, 7, 3]), np.array([0, 1, 1]))]
    [[3, 7], [1, 2]]
    """
    distinct, at = np.unique(codes, return_inverse=True)
    most = int(people.max(initial=0)) + 1
    pairs = np.unique(at * most + people)
    return distinct, np.bincount(pairs // most, minlength=len(distinct)).astype(np.int64)


def _stream(messages: Sequence[Sequence[int]]) -> tuple[Ids, Ids, Ids]:
    """Every target of the messages, with the two ids before it. Returns (before, last, target)."""
    kept = [message for message in messages if len(message)]
    lengths = np.array([len(message) + 1 for message in kept], np.int64)
    total = int(lengths.sum())
    word = np.fromiter(chain.from_iterable((*message, EOS) for message in kept), np.int64, total)
    starts = np.cumsum(lengths) - lengths
    last, before = np.roll(word, 1), np.roll(word, 2)
    last[starts] = before[starts] = BOS
    before[starts + 1] = BOS
    return before, last, word


def _interpolate(context: Ids, counts: Ids, lower: Reals, contexts: int) -> tuple[Reals, Reals]:
    """Discounted relative frequencies (n,), interpolated with the lower order; and the weight of that (contexts,)."""
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    discount = once / (once + 2 * twice) if once and twice else 0.5  # Ney et al. 1994; a half for tiny texts
    total = np.bincount(context, weights=counts, minlength=contexts)
    kinds = np.bincount(context, minlength=contexts)
    mass = np.divide(discount * kinds, total, out=np.ones(contexts), where=total > 0)
    return (counts - discount) / total[context] + mass[context] * lower, mass
