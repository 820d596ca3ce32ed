from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.models.compact_ngram import BYTES_PER_WORD, MAX_NGRAM_BYTES, MAX_VOCABULARY, compile_ngram, read_ngram
from nightjar.models.ngram import train_trigram
from nightjar.models.vocabulary import BOS, FIRST_WORD
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError

A, B, C, D = range(FIRST_WORD, FIRST_WORD + 4)
SIZE = 300
MESSAGES = [[A, B], [A, B, C], [A, C], [B, C, 299]]
WHOLE = compile_ngram(MESSAGES, SIZE)
STEP = 1 / 16  # nats: half a step


@given(st.lists(st.lists(st.integers(FIRST_WORD, 9), max_size=6), min_size=1, max_size=12).filter(any))
def test_a_small_text_keeps_all_its_probabilities(messages):
    scores, compact = train_trigram(messages, 10), read_ngram(compile_ngram(messages, 10), 10)
    for before, last in itertools.product(range(10), repeat=2):
        if last == BOS != before:
            continue  # nothing precedes the beginning
        exact, found = scores.after(before, last), compact.after(before, last)
        assert found.sum() == pytest.approx(1, abs=1e-5)
        seen = exact > 1e-8
        np.testing.assert_allclose(np.log(found[seen]), np.log(exact[seen]), atol=6 * STEP)


def test_a_large_text_is_cut_to_its_size_and_keeps_what_is_common():
    generator = np.random.default_rng(0)
    common = [A, B, C]
    messages = [common if n % 4 == 0 else generator.integers(FIRST_WORD, 50, 6).tolist() for n in range(20_000)]
    data = compile_ngram(messages, 50)
    assert 0.8 * BYTES_PER_WORD * 50 < len(data) <= BYTES_PER_WORD * 50
    assert int(np.argmax(read_ngram(data, 50).after(A, B))) == C


def test_at_full_size_it_takes_less_than_8_mb():
    generator = np.random.default_rng(0)
    common = np.minimum(generator.zipf(1.2, (120_000, 8)) + FIRST_WORD, 9_999)
    data = compile_ngram(common.tolist(), 10_000)
    assert len(data) <= MAX_NGRAM_BYTES
    compact = read_ngram(data, 10_000)
    assert sum(getattr(compact, name).nbytes for name in compact.__slots__) < 8_000_000


def test_too_large_a_vocabulary_is_refused():
    with pytest.raises(LocalProtocolError, match="65535"):
        compile_ngram([[A]], MAX_VOCABULARY + 1)


def written(size: int, bigrams: int, trigrams: int, body: bytes) -> bytes:
    return f"nightjar-ngram 1 {size} {bigrams} {trigrams}\n".encode() + zlib.compress(body, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        WHOLE[:-1],
        WHOLE[:10],
        WHOLE + bytes(MAX_NGRAM_BYTES),
        WHOLE.replace(b" 1 300 ", b" 1 301 "),
        WHOLE.replace(b" 1 300 ", b" 2 300 "),
        written(SIZE, 1, 0, bytes(4 * SIZE + 6)),  # no word has the bigram
        written(SIZE, 1, 0, bytes(2 * SIZE) + b"\x01" + bytes(2 * SIZE - 1) + b"\xff\xff" + bytes(4)),  # word 65,535
        written(SIZE, 0, 0, bytes(4 * SIZE + 1)),
        written(SIZE, 9_999_999, 0, bytes(100_000_000)),  # a bomb
        b"nightjar-ngram 1 300 0 0\nnot zlib",
    ],
    ids=range(11),
)
def test_bytes_that_are_no_ngram_model_are_refused(data):
    with pytest.raises(RemoteProtocolError, match="n-gram") as refused:
        read_ngram(data, SIZE)
    assert refused.value.code == "ngram"
