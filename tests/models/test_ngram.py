from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.ngram import Trigram, train_trigram
from nightjar.models.vocabulary import BOS, EOS, FIRST_WORD, OOV

A, B, C, D = range(FIRST_WORD, FIRST_WORD + 4)


def best(trigram: Trigram, before: int, last: int) -> list[int]:
    """The best three words, most probable first; ties in order of ids."""
    scores = trigram.after(before, last)
    return sorted((w for w in range(FIRST_WORD, len(scores)) if scores[w] > 0), key=lambda w: (-scores[w], w))[:3]


def after(messages: list[list[int]], before: int, last: int) -> list[int]:
    return best(train_trigram(messages, vocabulary_size=8), before, last)


def test_suggestions_by_hand() -> None:
    # Bigram types: BOS-a, a-b, b-EOS, b-c, c-EOS, a-c. Continuations: b 1, c 2, a 1.
    messages = [[A, B], [A, B], [A, B, C], [A, C]]
    # After (BOS, a): b three times, c once; a has one left neighbour, so it comes from the lowest order.
    assert after(messages, BOS, A) == [B, C, A]
    # After (a, b): the end twice, which cannot be suggested; c once; then the lowest order, a and b alike.
    assert after(messages, A, B) == [C, A, B]
    # A pair never seen, with a last word that was: what follows c is only the end; so the lowest order.
    assert after(messages, B, C) == [C, A, B]
    # A message begins with a, whatever the lower orders say.
    assert after(messages, BOS, BOS)[0] == A


def test_recall_by_hand() -> None:
    trigram = train_trigram([[A, B], [A, B], [A, B, C], [A, C]], vocabulary_size=8)
    recall = trigram.recall([[A, C], [OOV, D], []])
    # a: best. c after a: second. OOV: not counted. d was never seen: no suggestion.
    assert recall.counted == 3
    assert recall.top1 == pytest.approx(1 / 3)
    assert recall.top3 == pytest.approx(2 / 3)


def test_specials_are_never_suggested_but_take_their_share() -> None:
    trigram = train_trigram([[OOV, OOV, A], [OOV, OOV, B], [OOV]], vocabulary_size=8)
    assert trigram.after(BOS, BOS)[OOV] > trigram.after(BOS, BOS)[A]
    assert trigram.recall([[A]]) == (1.0, 1.0, 1)  # the OOV that is likelier at the beginning is not suggested


@given(st.lists(st.lists(st.integers(OOV, 7), max_size=6), min_size=1, max_size=8))
def test_recall_counts_the_best_three_words(messages: list[list[int]]) -> None:
    trigram = train_trigram(messages[1:], vocabulary_size=8)
    padded = [[BOS, BOS, *message] for message in messages]
    places = [p for m in padded for p in zip(m, m[1:], m[2:], strict=False) if p[-1] >= FIRST_WORD]
    suggested = [best(trigram, before, last) for before, last, _ in places]
    first = sum(word in three[:1] for three, (*_, word) in zip(suggested, places, strict=True))
    among = sum(word in three for three, (*_, word) in zip(suggested, places, strict=True))
    assert trigram.recall(messages) == (first / max(len(places), 1), among / max(len(places), 1), len(places))


def test_no_text_suggests_nothing() -> None:
    trigram = train_trigram([[], []], vocabulary_size=8)
    assert trigram.recall([[A, B]]) == (0.0, 0.0, 2)
    assert train_trigram([[A]], vocabulary_size=8).recall([]) == (0.0, 0.0, 0)


def plain_kneser_ney(messages: Sequence[Sequence[int]], size: int, u: int, v: int) -> dict[int, float]:
    """The same probabilities, word by word from dictionaries."""
    trigrams: Counter[tuple[int, int, int]] = Counter()
    bigrams: Counter[tuple[int, int]] = Counter()
    for message in messages:
        padded = [BOS, BOS, *message, EOS]
        for x, y, z in zip(padded, padded[1:], padded[2:], strict=False):
            if y == BOS:
                bigrams[y, z] += 1
            else:
                trigrams[x, y, z] += 1
    for _, y, z in trigrams:
        bigrams[y, z] += 1
    endings = Counter(z for _, z in bigrams)
    unigram = {w: endings[w] / sum(endings.values()) for w in range(size)}

    def discount(counts: Counter[tuple[int, int, int]] | Counter[tuple[int, int]]) -> float:
        once, twice = (sum(c == k for c in counts.values()) for k in (1, 2))
        return once / (once + 2 * twice) if once and twice else 0.5

    def smooth(counts: dict[int, int], d: float, lower: dict[int, float]) -> dict[int, float]:
        total = sum(counts.values())
        if not total:
            return lower
        return {w: max(counts.get(w, 0) - d, 0) / total + d * len(counts) / total * lower[w] for w in range(size)}

    after_v: dict[int, int] = {z: c for (y, z), c in bigrams.items() if y == v}
    after_uv: dict[int, int] = {z: c for (x, y, z), c in trigrams.items() if (x, y) == (u, v)}
    return smooth(after_uv, discount(trigrams), smooth(after_v, discount(bigrams), unigram))


@given(
    st.lists(st.lists(st.integers(OOV, 9), min_size=1, max_size=6), min_size=1, max_size=12),
    st.sampled_from([BOS, *range(OOV, 10)]),
    st.sampled_from([BOS, *range(OOV, 10)]),
)
def test_probabilities_are_those_of_kneser_and_ney(messages: list[list[int]], u: int, v: int) -> None:
    if v == BOS:
        u = BOS
    wanted = plain_kneser_ney(messages, 10, u, v)
    assert train_trigram(messages, 10).after(u, v) == pytest.approx([wanted[w] for w in range(10)])


def test_many_messages_take_seconds() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 15, 20_000)
    ids = FIRST_WORD + (generator.pareto(1.0, int(lengths.sum())) * 5).astype(np.int64) % 5_000
    messages = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    trigram = train_trigram(messages, 5_010)
    counts: defaultdict[int, int] = defaultdict(int)
    for message in messages:
        counts[message[0]] += 1
    assert best(trigram, BOS, BOS)[0] == max(counts, key=lambda w: counts[w])
