r"""A compact n-gram model of public text: a file beside the vocabulary, which the keyboard mixes with the LSTM.

An interpolated Kneser-Ney trigram (:mod:`nightjar.models.ngram`) is pruned: the n-grams whose removal costs the least
likelihood of the text go first (Seymore and Rosenfeld 1996, weighted difference). The others keep their probability;
every other word backs off to the shorter context (Katz 1987). Probabilities are stored in steps of an eighth of a nat.
A file is one line of ASCII and a zlib stream::

    nightjar-ngram 1 V B T\n
    zlib(probability of each word, V;             back-off weight after each word, V;
         number of bigrams that begin with each word, V of two bytes;
         second word of each bigram, B of two bytes;        probability, B;
         number of trigrams that begin with each bigram, B of two bytes;   back-off weight, B;
         third word of each trigram, T of two bytes;        probability, T)

Two-byte numbers are stored as all low bytes, then all high bytes; words as the difference from the previous word with
the same context. Rare n-grams quote what somebody wrote: only public text may be compiled, and with ``least_people``
above 1 an n-gram that fewer people typed is left out, like one that gains too little.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from nightjar.models.ngram import Trigram, ngram_people, train_trigram
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError

MAX_NGRAM_BYTES = 2_000_000
BYTES_PER_WORD = 200
"""Maximum file size per word of the vocabulary: 2 MB for 10,000 words."""
MAX_VOCABULARY = 65_535
MAX_NGRAMS = 1_500_000
"""Maximum number of bigrams, and of trigrams, in an untrusted file."""
_STEPS_PER_NAT = 8
_HEADER = re.compile(rb"nightjar-ngram 1 ([1-9][0-9]{0,4}) (0|[1-9][0-9]{0,6}) (0|[1-9][0-9]{0,6})\n")

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_Reals = npt.NDArray[np.float64]

_DECODED = np.exp(np.arange(256) / -_STEPS_PER_NAT).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class CompactNgram:
    """The decoded file, eight bytes per bigram and three per trigram. A uint8 code c stands for exp(-c / 8)."""

    unigram: npt.NDArray[np.float32]  # (V,) float32, probability of each word
    after_word: _Bytes  # (V,) uint8, codes of the back-off weights after each word
    bigram_starts: npt.NDArray[np.int32]  # (V + 1,) int32, index of the first bigram of each first word
    bigram_words: npt.NDArray[np.uint16]  # (B,) uint16, second words, ascending for each first word
    bigram_codes: _Bytes  # (B,) uint8, codes of the probabilities
    after_pair: _Bytes  # (B,) uint8, codes of the back-off weights after each bigram
    trigram_starts: npt.NDArray[np.int32]  # (B + 1,) int32, index of the first trigram of each bigram
    trigram_words: npt.NDArray[np.uint16]  # (T,) uint16, third words, ascending for each bigram
    trigram_codes: _Bytes  # (T,) uint8, codes of the probabilities

    def after(self, before: int, last: int) -> npt.NDArray[np.float32]:
        """Probabilities (V,) of the next word after two word ids, ``BOS`` where there is no word; they sum to 1."""
        shares: npt.NDArray[np.float32] = self.unigram * _DECODED[self.after_word[last]]
        start, stop = self.bigram_starts[last : last + 2]
        shares[self.bigram_words[start:stop]] = _DECODED[self.bigram_codes[start:stop]]
        start, stop = self.bigram_starts[before : before + 2]
        at = start + int(np.searchsorted(self.bigram_words[start:stop], last))
        if at < stop and self.bigram_words[at] == last:
            start, stop = self.trigram_starts[at : at + 2]
            if stop > start:
                shares *= _DECODED[self.after_pair[at]]
                shares[self.trigram_words[start:stop]] = _DECODED[self.trigram_codes[start:stop]]
        shares /= shares.sum()
        return shares


def compile_ngram(
    messages: Sequence[Sequence[int]],
    vocabulary_size: int,
    people: Sequence[int] | _Numbers | None = None,
    least_people: int = 1,
) -> bytes:
    """Make an n-gram model file of a public text, as large as the vocabulary allows.

    Messages are word ids without BOS and EOS; there must be at least one word in total. ``people`` has the number of
    the person who typed each message; None is one person for all. Every bigram and trigram is of at least so many
    people, and words of fewer are equally probable.

    Raises:
        LocalProtocolError: the vocabulary is too large for two-byte ids.
    """
    if vocabulary_size > MAX_VOCABULARY:
        msg = f"an n-gram model has at most {MAX_VOCABULARY} word ids, got {vocabulary_size}"
        raise LocalProtocolError(msg)
    scores = train_trigram(messages, vocabulary_size)
    limit = min(MAX_NGRAM_BYTES, BYTES_PER_WORD * vocabulary_size)
    gains = np.concatenate(_gains(scores))
    if least_people > 1:
        of = ngram_people(
            messages, people if people is not None else np.zeros(len(messages), np.int64), vocabulary_size
        )
        scores = replace(scores, unigram=_levelled(scores.unigram, of.words < least_people))
        gains[np.concatenate([of.bigrams, of.trigrams]) < least_people] = -np.inf
    best_first = np.argsort(-gains, kind="stable")[: min(MAX_NGRAMS, int(np.count_nonzero(gains > -np.inf)))]
    kept = len(best_first)
    while True:
        chosen = np.zeros(len(gains), np.bool_)
        chosen[best_first[:kept]] = True
        data = _write(scores, chosen[: len(scores.bigrams)], chosen[len(scores.bigrams) :])
        if len(data) <= limit:
            return data
        kept = int(0.98 * kept * limit / len(data))  # the size is nearly proportional to the number of n-grams


def _levelled(unigram: _Reals, rare: npt.NDArray[np.bool_]) -> _Reals:
    """The same probabilities, but rare words share theirs."""
    level = unigram[rare].sum() / max(int(rare.sum()), 1)
    shares: _Reals = np.where(rare, level, unigram)
    return shares


def read_ngram(data: bytes, vocabulary_size: int) -> CompactNgram:
    """Read an untrusted file for a model with so many word ids.

    Raises:
        RemoteProtocolError: not an n-gram model, too large, or made for another vocabulary.
    """
    header = _HEADER.match(data[:64])
    if header is None or len(data) > MAX_NGRAM_BYTES:
        _refuse(f"expected at most {MAX_NGRAM_BYTES} bytes, got {len(data)} bytes beginning {data[:24]!r}")
    size, bigrams, trigrams = map(int, header.groups())
    if size != vocabulary_size or max(bigrams, trigrams) > MAX_NGRAMS:
        _refuse(f"expected {vocabulary_size} words and at most {MAX_NGRAMS} n-grams, got {header[0].decode()!r}")
    expected = 4 * size + 6 * bigrams + 3 * trigrams
    unpacker = zlib.decompressobj()
    try:
        body = np.frombuffer(unpacker.decompress(data[header.end() :], expected), np.uint8)
    except zlib.error as error:
        _refuse(str(error))
    if not unpacker.eof or len(body) != expected:
        _refuse(f"expected {expected} bytes for {header[0].decode()!r}, got another number")
    parts = np.split(body, np.cumsum([size, size, 2 * size, 2 * bigrams, bigrams, 2 * bigrams, bigrams, 2 * trigrams]))
    unigram, after_word, followers, seconds, bigram_codes, continued, after_pair, thirds, trigram_codes = parts
    bigram_starts = _starts(_joined(followers), bigrams)
    trigram_starts = _starts(_joined(continued), trigrams)
    return CompactNgram(
        _DECODED[unigram],
        after_word,
        bigram_starts,
        _summed(_joined(seconds), bigram_starts, size),
        bigram_codes,
        after_pair,
        trigram_starts,
        _summed(_joined(thirds), trigram_starts, size),
        trigram_codes,
    )


def _gains(scores: Trigram) -> tuple[_Reals, _Reals]:
    """Log-likelihood of the text, in nats, that each bigram and each trigram gains over the shorter context."""
    size = scores.vocabulary_size
    last, word = np.divmod(scores.bigrams, size)
    shorter = scores.word_mass[last] * scores.unigram[word]
    bigrams: _Reals = np.log(scores.bigram_scores / shorter) * scores.bigram_counts
    at = np.searchsorted(scores.bigrams, scores.trigrams % (size * size))
    mass = scores.pair_mass[np.searchsorted(scores.contexts, scores.trigrams // size)]
    trigrams: _Reals = np.log(scores.trigram_scores / (mass * scores.bigram_scores[at])) * scores.trigram_counts
    return bigrams, trigrams


def _write(scores: Trigram, keep_bigram: npt.NDArray[np.bool_], keep_trigram: npt.NDArray[np.bool_]) -> bytes:
    size = scores.vocabulary_size
    thirds, third_scores = scores.trigrams[keep_trigram], scores.trigram_scores[keep_trigram]
    keep_bigram = keep_bigram.copy()
    keep_bigram[np.searchsorted(scores.bigrams, thirds // size)] = True  # a trigram needs its first two words
    pairs, pair_scores = scores.bigrams[keep_bigram], scores.bigram_scores[keep_bigram]
    last, word = np.divmod(pairs, size)
    after_word = _back_off(last, pair_scores, scores.unigram[word], size)

    pair_at, third = np.searchsorted(pairs, thirds // size), thirds % size
    shorter = (thirds // size) % size * size + third
    at = np.minimum(np.searchsorted(pairs, shorter), len(pairs) - 1)
    backed_off = after_word[shorter // size] * scores.unigram[third]
    lower = np.where(pairs[at] == shorter, pair_scores[at], backed_off)
    after_pair = _back_off(pair_at, third_scores, lower, len(pairs))
    continued = np.bincount(pair_at, minlength=len(pairs))
    body = (
        _codes(scores.unigram),
        _codes(after_word),
        _split(np.bincount(last, minlength=size)),
        _split(_differences(word, last)),
        _codes(pair_scores),
        _split(continued),
        np.where(continued > 0, _codes(after_pair), 0).astype(np.uint8),
        _split(_differences(third, pair_at)),
        _codes(third_scores),
    )
    head = f"nightjar-ngram 1 {size} {len(pairs)} {len(thirds)}\n".encode()
    return head + zlib.compress(b"".join(part.tobytes() for part in body), 9)


def _back_off(context: _Numbers, kept: _Reals, lower: _Reals, contexts: int) -> _Reals:
    """Back-off weights (contexts,), which make the probabilities of each context sum to 1."""
    left = 1.0 - np.bincount(context, weights=kept, minlength=contexts)
    lower_left = 1.0 - np.bincount(context, weights=lower, minlength=contexts)
    weights: _Reals = np.clip(left, 1e-9, 1.0) / np.clip(lower_left, 1e-9, 1.0)
    return weights


def _codes(shares: _Reals) -> _Bytes:
    codes: _Bytes = np.clip(np.rint(-_STEPS_PER_NAT * np.log(np.maximum(shares, 1e-30))), 0, 255).astype(np.uint8)
    return codes


def _differences(words: _Numbers, context: _Numbers) -> _Numbers:
    differences = np.diff(words, prepend=0)
    first = np.diff(context, prepend=-1) != 0
    differences[first] = words[first]
    return differences


def _summed(differences: _Numbers, starts: npt.NDArray[np.int32], size: int) -> npt.NDArray[np.uint16]:
    """Decodes words from their differences."""
    sums = np.concatenate([[0], np.cumsum(differences)])
    words: _Numbers = sums[1:] - np.repeat(sums[starts[:-1]], np.diff(starts))
    if len(words) and words.max() >= size:
        _refuse(f"expected word ids below {size}, got {words.max()}")
    return words.astype(np.uint16)


def _starts(numbers: _Numbers, total: int) -> npt.NDArray[np.int32]:
    if numbers.sum() != total:
        _refuse(f"expected {total} n-grams, got {numbers.sum()}")
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int32)


def _split(numbers: _Numbers) -> _Bytes:
    return np.concatenate([numbers & 0xFF, numbers >> 8]).astype(np.uint8)


def _joined(halves: _Bytes) -> _Numbers:
    low, high = np.split(halves, 2)
    return low + 256 * high.astype(np.int64)


def _refuse(why: str) -> NoReturn:
    msg = f"n-gram model: {why}"
    raise RemoteProtocolError(msg, code="ngram")
