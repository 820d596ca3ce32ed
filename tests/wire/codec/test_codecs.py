"""Every named codec: what it sends, what it refuses, and that a receiver reads exactly what was sent."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.wire.codec import NAMES, codec_for
from nightjar.wire.codec.quantize import dequantize, logarithmic_grid, quantize, uniform_grid
from nightjar.wire.codec.sparsify import count_for, top_k
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.wire.strategies import layouts, vectors

LAYOUT = ParameterLayout((ParameterSpec("embedding", (30, 8)), ParameterSpec("bias", (20,))))
TOPK = ["topk-8", "topk-4"]
OWN_CHOICE = [*TOPK, "sampled-4"]

cases = layouts.flatmap(lambda layout: st.tuples(st.just(layout), vectors(layout.size)))
densities = st.one_of(st.floats(0.001, 1), st.just(1.0))


def rng():
    return np.random.default_rng(5)


def delta(seed=0):
    return np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)


def codec_named(name, density=0.1):
    return codec_for(CodecChoice(name=name, density=density))


def quantized(values, bits):
    """What the codecs of so many bits make of some values."""
    if bits == 8:
        grid = uniform_grid(values, 8)
        return dequantize(quantize(values, grid, rng()), grid)
    grid = logarithmic_grid(values, 4)
    return dequantize(quantize(values, grid), grid)


def test_wire_ids_are_unique_and_stable():
    assert {name: codec_named(name).wire_id for name in NAMES} == {
        "dense-f32": 1,
        "dense-f16": 3,
        "topk-8": 4,
        "topk-4": 5,
        "sampled-4": 6,
    }


@pytest.mark.slow
@settings(max_examples=60)
@given(cases, st.floats(0.01, 1), st.integers(0, 9))
@pytest.mark.parametrize("name", ["dense-f32", *OWN_CHOICE])
def test_what_is_said_to_be_sent_is_what_is_read(name, case, density, seed):
    layout, update = case
    update = np.clip(update, -1e35, 1e35)  # a threshold, the sum of many by a few, must fit a float32
    codec = codec_for(CodecChoice(name=name, density=density))
    write_payload, sent = codec.write(update, layout, np.random.default_rng(seed))
    payload = write_payload()
    assert payload == codec.encode(update, layout, np.random.default_rng(seed))
    read = codec.decode(payload, layout)
    assert (sent.size, sent.indices.tolist()) == (read.size, read.indices.tolist())
    assert sent.values.tobytes() == read.values.tobytes()


def test_an_unknown_codec_names_the_known_ones():
    with pytest.raises(RemoteProtocolError, match="dense-f32, dense-f16"):
        codec_for(CodecChoice(name="gzip"))


@pytest.mark.slow
@given(cases)
def test_dense_f32_is_exact(case):
    layout, vector = case
    codec = codec_named("dense-f32")
    assert (codec.decode(codec.encode(vector, layout, rng()), layout).dense() == vector).all()


@pytest.mark.slow
@given(cases)
def test_dense_f16_is_the_nearest_half(case):
    layout, vector = case
    vector = np.clip(vector, -60_000, 60_000)
    codec = codec_named("dense-f16")
    got = codec.decode(codec.encode(vector, layout, rng()), layout).dense()
    assert got.tobytes() == vector.astype(np.float16).astype(np.float32).tobytes()


def test_dense_f16_refuses_what_half_precision_cannot_hold():
    with pytest.raises(LocalProtocolError, match="dense-f32"):
        codec_named("dense-f16").encode(delta() + np.float32(65_505), LAYOUT, rng())


@pytest.mark.slow
@given(cases, densities)
@pytest.mark.parametrize("name", TOPK)
def test_the_receiver_reads_exactly_the_quantized_top_k(name, case, density):
    layout, vector = case
    codec = codec_named(name, density)
    got = codec.decode(codec.encode(vector, layout, rng()), layout)
    sparse = top_k(vector, count_for(density, layout.size))
    assert got.indices.tolist() == sparse.indices.tolist()
    assert got.values.tobytes() == quantized(sparse.values, int(name[-1])).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_same_delta_and_generator_give_the_same_bytes(name):
    codec = codec_named(name)
    assert codec.encode(delta(), LAYOUT, rng()) == codec.encode(delta(), LAYOUT, rng())


@pytest.mark.parametrize("name", NAMES)
def test_a_delta_that_is_not_finite_or_of_another_shape_is_refused(name):
    codec = codec_named(name)
    bad = delta()
    bad[3] = np.nan
    for vector in (bad, delta()[:-1], delta().reshape(2, -1)):
        with pytest.raises(LocalProtocolError):
            codec.encode(vector, LAYOUT, rng())


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_not_modified(name):
    codec, vector = codec_named(name), delta()
    vector.setflags(write=False)
    payload = codec.encode(vector, LAYOUT, rng())
    codec.decode(payload, LAYOUT)
    assert (vector == delta()).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_parameters_has_an_empty_update(name):
    layout = ParameterLayout(())
    codec = codec_named(name)
    got = codec.decode(codec.encode(np.zeros(0, np.float32), layout, rng()), layout)
    assert (got.size, got.indices.size, got.values.size) == (0, 0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_truncation_is_a_protocol_error(name):
    codec = codec_named(name)
    payload = codec.encode(delta(), LAYOUT, rng())
    for length in range(len(payload)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(payload[:length], LAYOUT)


@pytest.mark.parametrize("name", NAMES)
def test_one_byte_more_is_a_protocol_error(name):
    codec = codec_named(name)
    with pytest.raises(RemoteProtocolError):
        codec.decode(codec.encode(delta(), LAYOUT, rng()) + b"\0", LAYOUT)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.binary(max_size=80))
@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_an_update_or_a_protocol_error(name, payload):
    try:
        update = codec_named(name).decode(payload, LAYOUT)
    except RemoteProtocolError:
        return
    assert update.size == LAYOUT.size
    assert np.isfinite(update.values).all()


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("dense")])
def test_a_scale_that_is_no_magnitude_is_refused(name, scale):
    codec, at = codec_named(name), 4
    payload = bytearray(codec.encode(delta(), LAYOUT, rng()))
    payload[at : at + 4] = struct.pack("<f", scale)
    with pytest.raises(RemoteProtocolError, match="scale"):
        codec.decode(bytes(payload), LAYOUT)
    with pytest.raises(RemoteProtocolError, match="scale"):
        codec.read(bytes(payload), LAYOUT)


@pytest.mark.parametrize("name", OWN_CHOICE)
def test_more_values_than_parameters_are_refused(name):
    codec = codec_named(name)
    payload = struct.pack("<I", LAYOUT.size + 1) + codec.encode(delta(), LAYOUT, rng())[4:]
    with pytest.raises(RemoteProtocolError, match="do not fit"):
        codec.decode(payload, LAYOUT)


@pytest.mark.parametrize(("name", "nan"), [("dense-f32", b"\0\0\xc0\x7f"), ("dense-f16", b"\0\x7e")])
def test_a_dense_update_with_nan_is_refused(name, nan):
    with pytest.raises(RemoteProtocolError, match="finite"):
        codec_named(name).decode(nan * LAYOUT.size, LAYOUT)


@pytest.mark.parametrize("name", NAMES)
def test_the_short_way_to_the_norm_gives_the_norm_of_what_is_decoded(name):
    codec = codec_named(name)
    payload = codec.encode(delta(), LAYOUT, rng())
    expected = float(np.linalg.norm(codec.decode(payload, LAYOUT).values.astype(np.float64)))
    assert codec.read(payload, LAYOUT).norm == pytest.approx(expected, rel=1e-6)
    for length in (0, 2, 6):
        with pytest.raises(RemoteProtocolError):
            codec.read(payload[:length], LAYOUT)


@pytest.mark.parametrize("name", ["dense-f32", *TOPK])
def test_values_at_the_end_of_float32_survive(name):
    """Their norm does not fit a float32; the head then says the largest there is."""
    vector = np.full(LAYOUT.size, np.finfo(np.float32).max)
    vector[::2] *= -1
    codec = codec_named(name, density=0.5)
    got = codec.decode(codec.encode(vector, LAYOUT, rng()), LAYOUT)
    assert got.values.tolist() == vector[got.indices].tolist()


@pytest.mark.parametrize("name", OWN_CHOICE)
def test_more_values_than_were_asked_for_are_refused_before_they_are_decoded(name):
    layout = ParameterLayout((ParameterSpec("w", (20, 10)),))
    rng = np.random.default_rng(5)
    delta = rng.standard_normal(200).astype(np.float32)
    greedy = codec_for(CodecChoice(name=name, density=0.5)).encode(delta, layout, rng)
    assert codec_for(CodecChoice(name=name, density=0.5)).read(greedy, layout).norm > 0
    with pytest.raises(RemoteProtocolError, match=r"at most 2 values at density 0\.01, got 100"):
        codec_for(CodecChoice(name=name, density=0.01)).read(greedy, layout)
