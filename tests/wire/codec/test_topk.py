"""Whole top-k payloads: never longer than the bound that anybody can reach with zlib, whatever the update."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.models.configurations import configuration
from nightjar.wire.codec.quantize import Logarithmic, Uniform, logarithmic_grid, quantize, uniform_grid
from nightjar.wire.codec.sparsify import top_k
from nightjar.wire.codec.topk import codec, decode_topk, encode_levels
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.wire.strategies import layouts, vectors

TINY = configuration("tiny").layout(2_000)
GBOARD = configuration("gboard").layout(10_000)
MATRIX = ParameterLayout((ParameterSpec("m", (200, 50)),))


def bound(update, k, bits):
    """The fixed head, zlib at its best of the packed bitmap, and the levels without any coding."""
    bitmap = np.zeros(update.size, np.uint8)
    bitmap[top_k(update, k).indices] = 1
    head = 13 if bits == 8 else 15
    packed = np.packbits(bitmap).tobytes()
    return head + min(len(zlib.compress(packed, effort)) for effort in (1, 6, 9)) + (k * bits + 7) // 8


def payload(update, k, bits, layout):
    sparse = top_k(update, k)
    grid = uniform_grid(sparse.values, 8) if bits == 8 else logarithmic_grid(sparse.values, 4)
    levels = quantize(sparse.values, grid, np.random.default_rng(0) if bits == 8 else None)
    return encode_levels(sparse.indices, levels, grid, layout)


@pytest.mark.parametrize("bits", [4, 8])
@settings(max_examples=60)
@given(layouts.flatmap(lambda layout: st.tuples(st.just(layout), vectors(layout.size), st.integers(0, layout.size))))
def test_never_larger_than_zlib_on_any_input(bits, case):
    layout, update, k = case
    assert len(payload(update, k, bits, layout)) <= bound(update, k, bits)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_never_larger_than_zlib_where_its_quick_search_beats_the_thorough_one(bits):
    """It does so by a few bytes, here and there: in some of these, whatever zlib it is."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        size = int(rng.integers(8, 3000))
        layout = ParameterLayout((ParameterSpec("m", (size,)),))
        chosen = (np.arange(size) % rng.integers(2, 60) == 0) ^ (rng.random(size) < 0.02)
        update = np.where(chosen, 1, 0).astype(np.float32)
        k = int(chosen.sum())
        assert len(payload(update, k, bits, layout)) <= bound(update, k, bits)


def in_order(indices):
    """An update whose largest entries are these."""
    update = np.random.default_rng(1).uniform(0.1, 0.2, TINY.size).astype(np.float32)
    update[indices] = np.random.default_rng(2).uniform(1, 2, len(indices))
    return update


KINDS = {
    "even": np.random.default_rng(3).standard_normal(TINY.size).astype(np.float32),
    "all equal": np.ones(TINY.size, np.float32),
    "zeros": np.zeros(TINY.size, np.float32),
    "every third": in_order(np.arange(0, TINY.size, 3)),
    "one row in two": in_order(np.flatnonzero(np.arange(TINY.size) // TINY.tensors[0].shape[1] % 2)),
    "the first half": in_order(np.arange(TINY.size // 2)),
    "smallest floats": np.random.default_rng(4).standard_normal(TINY.size).astype(np.float32) * np.float32(1e-44),
}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("density", [0.0001, 0.001, 0.01, 0.1, 0.34, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_never_larger_than_zlib_at_the_size_of_a_model(kind, density, bits):
    k = round(density * TINY.size)
    assert len(payload(KINDS[kind], k, bits, TINY)) <= bound(KINDS[kind], k, bits)


@pytest.mark.parametrize("density", [0.001, 0.01, 0.05])
def test_never_larger_than_zlib_where_positions_are_uniformly_random(density):
    """The worst for a code that lives on structure, at the size that it is made for."""
    update = np.random.default_rng(5).standard_normal(GBOARD.size).astype(np.float32)
    k = round(density * GBOARD.size)
    assert len(payload(update, k, 4, GBOARD)) < 0.95 * bound(update, k, 4)


@pytest.mark.parametrize("level", [0, 1, 7])
def test_the_shorter_form_is_taken(level):
    """Every third position of a model is nothing for zlib, and half of them at random nothing that it could shorten."""
    regular, even = np.arange(0, TINY.size, 3), np.flatnonzero(np.random.default_rng(6).random(TINY.size) < 0.05)
    grid = Logarithmic(1.0, 300, 7)
    forms = [encode_levels(chosen, np.full(chosen.size, level), grid, TINY)[14] for chosen in (regular, even)]
    assert forms[1] == 0
    assert len(encode_levels(regular, np.full(regular.size, level), grid, TINY)) <= 15 + 400 + (regular.size + 1) // 2


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize(("bits", "grid"), [(4, Logarithmic(0.5, 300, 7)), (8, Uniform(2.0, 127))])
def test_both_forms_are_read_back(bits, grid, form):
    rng = np.random.default_rng(7)
    chosen = np.arange(0, MATRIX.size, 2) if form else np.sort(rng.choice(MATRIX.size, 300, replace=False))
    levels = rng.integers(-grid.most, grid.most + 1, chosen.size)
    data = encode_levels(chosen, levels, grid, MATRIX)
    assert data[14 if bits == 4 else 12] == form
    sparse = decode_topk(data, MATRIX, bits=bits)
    assert sparse.indices.tolist() == chosen.tolist()
    assert (sparse.values == np.sign(levels) * grid.magnitudes()[np.abs(levels)].astype(np.float32)).all()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("density", [1e-7, 0.01, pytest.param(1.0, marks=pytest.mark.verify)])
def test_five_million_parameters(bits, density):
    layout = ParameterLayout((ParameterSpec("a", (2_500, 1_600)), ParameterSpec("b", (1_000_000,))))
    update = np.random.default_rng(8).standard_normal(layout.size).astype(np.float32)
    written = codec(bits)(density)[0](update, layout, np.random.default_rng(9))
    data, sent = written.payload(), written.sent
    got = decode_topk(data, layout, bits=bits)
    assert got.values.tobytes() == sent.values.tobytes()
    assert got.indices.tolist() == top_k(update, got.indices.size).indices.tolist()
    assert data == codec(bits)(density)[0](update, layout, np.random.default_rng(9)).payload()
