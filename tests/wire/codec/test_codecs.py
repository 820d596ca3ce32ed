import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import layouts, vectors
from wire.codec import NAMES, codec_for, encode_with_feedback
from wire.codec.sparsify import count_for, top_k
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, ParameterSpec

LAYOUT = ParameterLayout((ParameterSpec("embedding", (30, 8)), ParameterSpec("bias", (20,))))
TOPK = codec_for(CodecChoice(name="topk-8", density=0.1))


def rng():
    return np.random.default_rng(5)


def delta(seed=0):
    return np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)


def test_wire_ids_are_unique_and_stable():
    assert {name: codec_for(CodecChoice(name=name)).wire_id for name in NAMES} == {"dense-f32": 1, "topk-8": 2}


def test_an_unknown_codec_names_the_known_ones():
    with pytest.raises(RemoteProtocolError, match="dense-f32, topk-8"):
        codec_for(CodecChoice(name="gzip"))


@given(layouts.flatmap(lambda layout: st.tuples(st.just(layout), vectors(layout.size))))
def test_dense_is_exact(case):
    layout, vector = case
    dense = codec_for(CodecChoice(name="dense-f32"))
    assert (dense.decode(dense.encode(vector, layout, rng()), layout).dense() == vector).all()


@given(
    layouts.flatmap(lambda layout: st.tuples(st.just(layout), vectors(layout.size))),
    st.floats(0.001, 1),
)
def test_topk_sends_exactly_the_top_k_positions(case, density):
    layout, vector = case
    codec = codec_for(CodecChoice(name="topk-8", density=density))
    got = codec.decode(codec.encode(vector, layout, rng()), layout)
    assert got.indices.tolist() == top_k(vector, count_for(density, layout.size)).indices.tolist()


def test_same_delta_and_generator_give_the_same_bytes():
    assert TOPK.encode(delta(), LAYOUT, rng()) == TOPK.encode(delta(), LAYOUT, rng())


@pytest.mark.parametrize("name", NAMES)
def test_a_delta_that_is_not_finite_or_of_another_shape_is_refused(name):
    codec = codec_for(CodecChoice(name=name))
    bad = delta()
    bad[3] = np.nan
    for vector in (bad, delta()[:-1]):
        with pytest.raises(LocalProtocolError):
            codec.encode(vector, LAYOUT, rng())


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_not_modified(name):
    vector = delta()
    codec_for(CodecChoice(name=name)).encode(vector, LAYOUT, rng())
    assert (vector == delta()).all()


def test_every_truncation_is_a_protocol_error():
    payload = TOPK.encode(delta(), LAYOUT, rng())
    for length in range(len(payload)):
        with pytest.raises(RemoteProtocolError):
            TOPK.decode(payload[:length], LAYOUT)


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_any_bytes_are_an_update_or_a_protocol_error(payload):
    try:
        update = TOPK.decode(payload, LAYOUT)
    except RemoteProtocolError:
        return
    assert update.size == LAYOUT.size
    assert np.isfinite(update.values).all()


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_a_scale_that_is_no_magnitude_is_refused(scale):
    payload = bytearray(TOPK.encode(delta(), LAYOUT, rng()))
    payload[4:8] = struct.pack("<f", scale)
    with pytest.raises(RemoteProtocolError, match="scale"):
        TOPK.decode(bytes(payload), LAYOUT)


def test_more_values_than_parameters_are_refused():
    with pytest.raises(RemoteProtocolError, match="do not fit"):
        TOPK.decode(struct.pack("<If", LAYOUT.size + 1, 1.0) + bytes(1000), LAYOUT)


def test_a_dense_update_with_nan_is_refused():
    dense = codec_for(CodecChoice(name="dense-f32"))
    with pytest.raises(RemoteProtocolError, match="finite"):
        dense.decode(struct.pack("<f", np.nan) * LAYOUT.size, LAYOUT)


@pytest.mark.parametrize("name", NAMES)
def test_error_feedback_loses_nothing(name):
    codec = codec_for(CodecChoice(name=name, density=0.05))
    residual, sent, generator = np.zeros(LAYOUT.size, np.float32), np.zeros(LAYOUT.size), rng()
    for seed in range(20):
        payload, residual = encode_with_feedback(codec, delta(seed), residual, LAYOUT, generator)
        sent += codec.decode(payload, LAYOUT).dense()
    total = np.sum([delta(seed) for seed in range(20)], axis=0, dtype=np.float64)
    assert np.abs(sent + residual - total).max() < 1e-4
