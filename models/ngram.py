"""An interpolated Kneser-Ney trigram, the baseline for the LSTM.

Source: Chen and Goodman 1999, "An empirical study of smoothing techniques for language modeling", section 4: absolute
discounting with one discount per order, lower orders from continuation counts. The first word of a message has no left
context to count, so after BOS the lower order uses plain counts.

Recall needs only the best three words of each context, so :func:`train_trigram` keeps only these. :func:`train_scores`
keeps the probability of every word, for example to complete a prefix. Specials are contexts and have probability mass
like any word, but are never suggested and never counted as targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.vocabulary import BOS, EOS, FIRST_WORD, PAD

Ids = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

SUGGESTIONS = 3


class NgramRecall(NamedTuple):
    """Top-1 and top-3 recall over the counted targets, 0 to 1, and the number of counted targets."""

    top1: float
    top3: float
    counted: int


@dataclass(frozen=True, slots=True, eq=False)
class Trigram:
    """The best three words after each context, best first; ``PAD`` where there are fewer.

    Attributes:
        vocabulary_size: V.
        contexts: (n,) int64, sorted: ``u * V + v`` for each observed pair of words u v.
        after_pair: (n, 3) int64, best words after each of ``contexts``.
        after_word: (V, 3) int64, best words after any other pair, by its second word.
    """

    vocabulary_size: int
    contexts: Ids
    after_pair: Ids
    after_word: Ids

    def suggestions(self, before: Ids, last: Ids) -> Ids:
        """The best words after pairs of ids.

        Args:
            before: (m,) ids of the second-to-last words; ``BOS`` where there is none.
            last: (m,) ids of the last words; ``BOS`` at the beginning of a message.

        Returns:
            (m, 3) int64.
        """
        best = self.after_word[last]
        if len(self.contexts):
            pairs = before * self.vocabulary_size + last
            at = np.minimum(np.searchsorted(self.contexts, pairs), len(self.contexts) - 1)
            seen = self.contexts[at] == pairs
            best[seen] = self.after_pair[at[seen]]
        return best

    def recall(self, messages: Sequence[Sequence[int]]) -> NgramRecall:
        """Recall of the suggestions on messages.

        Args:
            messages: word ids of each message, without BOS and EOS.
        """
        before, last, word = _stream(messages)
        counted = word >= FIRST_WORD
        hits = self.suggestions(before[counted], last[counted]) == word[counted, None]
        number = int(np.count_nonzero(counted))
        return NgramRecall(
            top1=int(np.count_nonzero(hits[:, 0])) / max(number, 1),
            top3=int(np.count_nonzero(hits)) / max(number, 1),
            counted=number,
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrigramScores:
    """The probability of every word after each context.

    Attributes:
        vocabulary_size: V.
        unigram: (V,) probability of each word.
        bigrams: (b,) int64, sorted: ``v * V + w`` for each w that followed v.
        bigram_scores: (b,) probability of w after v.
        word_mass: (V,) probability mass after v of all other words, distributed as in ``unigram``.
        trigrams: (t,) int64, sorted: ``(u * V + v) * V + w``.
        trigram_scores: (t,) probability of w after u v.
        contexts: (n,) int64, sorted: ``u * V + v``.
        pair_mass: (n,) probability mass after u v of all other words, distributed as after v.
        bigram_counts: (b,) how often w follows v in the text.
        trigram_counts: (t,) how often w follows u v.
    """

    vocabulary_size: int
    unigram: Reals
    bigrams: Ids
    bigram_scores: Reals
    word_mass: Reals
    trigrams: Ids
    trigram_scores: Reals
    contexts: Ids
    pair_mass: Reals
    bigram_counts: Ids
    trigram_counts: Ids

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


def train_scores(messages: Sequence[Sequence[int]], vocabulary_size: int) -> TrigramScores:
    """Count n-grams and smooth the counts.

    Args:
        messages: word ids of each message, without BOS and EOS; at least one word in total.
        vocabulary_size: V, specials included.
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
    return TrigramScores(
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


def train_trigram(messages: Sequence[Sequence[int]], vocabulary_size: int) -> Trigram:
    """Count n-grams, smooth the counts, and keep each context's best three words.

    Args:
        messages: word ids of each message, without BOS and EOS.
        vocabulary_size: V, specials included.
    """
    size = vocabulary_size
    if not any(len(message) for message in messages):
        nothing = np.full((size, SUGGESTIONS), PAD, np.int64)
        return Trigram(size, np.zeros(0, np.int64), nothing[:0], nothing)
    found = train_scores(messages, size)
    bigrams, unigram, contexts = found.bigrams, found.unigram, found.contexts
    commonest = np.argsort(-unigram[FIRST_WORD:], kind="stable")[:SUGGESTIONS] + FIRST_WORD
    commonest = commonest[unigram[commonest] > 0]
    all_words = np.arange(size)
    after_word = _best(
        all_words,
        contexts=np.concatenate([bigrams // size, np.repeat(all_words, len(commonest))]),
        words=np.concatenate([bigrams % size, np.tile(commonest, size)]),
        scores=np.concatenate([found.bigram_scores, np.outer(found.word_mass, unigram[commonest]).ravel()]),
    )
    # A word unseen after the pair can be among its best three only if it is among those after the last word alone.
    spare = after_word[contexts % size]
    spare_scores = found.pair_mass[:, None] * _score_after_word(
        contexts % size, spare, size, bigrams, found.bigram_scores, found.word_mass, unigram
    )
    pair_of = np.searchsorted(contexts, found.trigrams // size)
    after_pair = _best(
        np.arange(len(contexts)),
        contexts=np.concatenate([pair_of, np.repeat(np.arange(len(contexts)), SUGGESTIONS)]),
        words=np.concatenate([found.trigrams % size, spare.ravel()]),
        scores=np.concatenate([found.trigram_scores, spare_scores.ravel()]),
    )
    return Trigram(size, contexts, after_pair, after_word)


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
    """Discounted relative frequencies, interpolated with the lower order.

    Args:
        context: (n,) index of each n-gram's context, 0 to ``contexts`` - 1.
        counts: (n,) count of each n-gram.
        lower: (n,) lower-order probability of each n-gram's word.
        contexts: number of contexts.

    Returns:
        (n,) probability of each n-gram; (contexts,) weight of the lower order, 1 for an unseen context.
    """
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    discount = once / (once + 2 * twice) if once and twice else 0.5  # Ney et al. 1994; a half for tiny texts
    total = np.bincount(context, weights=counts, minlength=contexts)
    kinds = np.bincount(context, minlength=contexts)
    mass = np.divide(discount * kinds, total, out=np.ones(contexts), where=total > 0)
    return (counts - discount) / total[context] + mass[context] * lower, mass


def _score_after_word(
    last: Ids, words: Ids, size: int, bigrams: Ids, scores: Reals, mass: Reals, unigram: Reals
) -> Reals:
    """Probability (n, 3) of words (n, 3) after single words (n,)."""
    pairs = last[:, None] * size + words
    at = np.minimum(np.searchsorted(bigrams, pairs), len(bigrams) - 1)
    return np.where(bigrams[at] == pairs, scores[at], mass[last][:, None] * unigram[words])


def _best(all_contexts: Ids, contexts: Ids, words: Ids, scores: Reals) -> Ids:
    """The best three distinct words (contexts, 3) of each context; ties in order of ids.

    A word may occur twice for a context, once observed and once from the lower order: the higher score is correct.
    """
    real = words >= FIRST_WORD
    contexts, words, scores = contexts[real], words[real], scores[real]
    order = np.lexsort((-scores, words, contexts))
    contexts, words, scores = contexts[order], words[order], scores[order]
    first = np.ones(len(words), np.bool_)
    first[1:] = (contexts[1:] != contexts[:-1]) | (words[1:] != words[:-1])
    contexts, words, scores = contexts[first], words[first], scores[first]

    order = np.lexsort((words, -scores, contexts))
    contexts, words = contexts[order], words[order]
    place = np.arange(len(contexts)) - np.searchsorted(contexts, contexts)
    best = np.full((len(all_contexts), SUGGESTIONS), PAD, np.int64)
    top = place < SUGGESTIONS
    best[contexts[top], place[top]] = words[top]
    return best
