"""The entropy coder by itself: exact, near the entropy, its statistics bounded, its end checked."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.codec.rans import (
    LONGEST_BLOCK,
    LOWEST,
    SHARE_BITS,
    LaneDecoder,
    LaneEncoder,
    Statistics,
    blocks,
    stride_order,
)
from nightjar.wire.errors import RemoteProtocolError


def coded(streams, lanes, filler=None):
    encoder = LaneEncoder(lanes)
    for symbols, contexts, prior in streams:
        encoder.stream(symbols, contexts, prior)
    filler = np.zeros(lanes, np.int64) if filler is None else filler
    return encoder.finish(filler), encoder.ideal_bits


@st.composite
def streams_of(draw):
    streams = []
    for _ in range(draw(st.integers(0, 3))):
        alphabet, classes, size = draw(st.integers(1, 40)), draw(st.integers(1, 5)), draw(st.integers(0, 400))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        prior = rng.integers(1, 3000, (classes, alphabet))
        streams.append((rng.integers(0, alphabet, size), rng.integers(0, classes, size), prior))
    return streams


@given(streams_of(), st.integers(1, 300), st.integers(0, 99))
def test_streams_and_filler_come_back(streams, lanes, seed):
    filler = np.random.default_rng(seed).integers(0, 1 << 16, lanes)
    (states, words), _ = coded(streams, lanes, filler)
    assert ((states >= LOWEST) & (states < 1 << 32)).all()
    decoder = LaneDecoder(states, words)
    for symbols, contexts, prior in streams:
        assert decoder.stream(contexts, prior).tolist() == symbols.tolist()
    assert decoder.finish().tolist() == filler.tolist()


@pytest.mark.parametrize("lanes", [1, 16, 256])
def test_a_long_stream_costs_its_entropy(lanes):
    rng = np.random.default_rng(0)
    shares = np.array([0.6, 0.2, 0.1, 0.05, 0.05])
    symbols = rng.choice(5, 50_000, p=shares)
    zeros = np.zeros_like(symbols)
    (_, words), ideal_bits = coded([(symbols, zeros, np.full((1, 5), 64))], lanes)
    entropy_bits = -symbols.size * (shares * np.log2(shares)).sum()
    assert ideal_bits == pytest.approx(entropy_bits, rel=0.01)
    assert 16 * words.size < 1.01 * ideal_bits


@given(st.integers(0, 20_000))
def test_blocks_cover_a_stream_and_are_never_too_long(size):
    ends = [0]
    for begin, end in blocks(size):
        assert begin == ends[-1]
        assert 0 < end - begin <= LONGEST_BLOCK
        ends.append(end)
    assert ends[-1] == size


@given(st.integers(0, 5000))
def test_every_symbol_is_dealt_once(size):
    assert sorted(stride_order(size).tolist()) == list(range(size))


@given(st.lists(st.lists(st.integers(1, 2**36), min_size=3, max_size=3), min_size=1, max_size=4))
def test_shares_fill_the_range_whatever_the_counts_are(prior):
    """No symbol becomes impossible, and no table outgrows its 2**14, after any number of sightings."""
    contexts = np.arange(len(prior))
    shares, begins = Statistics(contexts, np.array(prior)).shares()
    assert (shares >= 1).all()
    assert (shares.reshape(len(prior), 3).sum(axis=1) == 1 << SHARE_BITS).all()
    assert begins.tolist() == [0, *np.cumsum(shares)[:-1].tolist()]


def test_words_that_end_early_or_are_left_over_are_refused():
    symbols = np.random.default_rng(1).integers(0, 30, 500)
    zeros, prior = np.zeros_like(symbols), np.full((1, 30), 64)
    (states, words), _ = coded([(symbols, zeros, prior)], 4)
    with pytest.raises(RemoteProtocolError, match="too early"):
        LaneDecoder(states, words[:-1]).stream(zeros, prior)
    decoder = LaneDecoder(states, np.append(words, np.uint16(0)))
    decoder.stream(zeros, prior)
    with pytest.raises(RemoteProtocolError, match="1 words are left"):
        decoder.finish()


def test_an_end_where_no_encoder_can_have_begun_is_refused():
    decoder = LaneDecoder(np.array([2 * LOWEST]), np.zeros(0, np.uint16))
    with pytest.raises(RemoteProtocolError, match="do not end"):
        decoder.finish()
