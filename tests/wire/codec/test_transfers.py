import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.wire.codec import codec_for
from nightjar.wire.codec.transfers import (
    TOPK_4,
    TOPK_8,
    apply_transfer,
    exact_transfer,
    topk_transfer,
)
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.messages import CodecChoice
from nightjar.wire.parameters import ParameterLayout, ParameterSpec
from tests.wire.half_transfer import half_transfer
from tests.wire.strategies import layouts, vectors

LAYOUT = ParameterLayout((ParameterSpec("embedding", (30, 8)), ParameterSpec("bias", (20,))))


def weights(seed=0):
    return np.random.default_rng(seed).normal(size=LAYOUT.size).astype(np.float32)


def bits(vector):
    return vector.view(np.uint32).tolist()


@settings(max_examples=40)
@given(layouts.flatmap(lambda layout: st.tuples(st.just(layout), vectors(layout.size), vectors(layout.size))))
def test_exact_transfer_is_exact_to_the_last_bit(case):
    layout, base, following = case
    assert bits(apply_transfer(exact_transfer(base, following, layout), base, layout)) == bits(following)


def test_exact_transfer_tells_minus_zero_from_zero():
    base, following = weights(), weights()
    base[:4], following[:4] = [0.0, -0.0, 0.0, 1e-45], [-0.0, 0.0, 0.0, -1e-45]
    assert bits(apply_transfer(exact_transfer(base, following, LAYOUT), base, LAYOUT)) == bits(following)


def test_few_changes_make_a_short_transfer_and_none_almost_nothing():
    layout = ParameterLayout((ParameterSpec("w", (1_000, 100)),))
    base = np.random.default_rng(0).normal(size=layout.size).astype(np.float32)
    following = base.copy()
    following[:500] += np.float32(0.001)
    assert len(exact_transfer(base, following, layout)) < 4 * layout.size / 200
    assert len(exact_transfer(base, base, layout)) < 50


def test_changes_between_float16_numbers_cost_no_bits_that_float16_lacks():
    layout = ParameterLayout((ParameterSpec("w", (100, 100)),))
    rng = np.random.default_rng(0)
    base = rng.normal(size=layout.size).astype(np.float16).astype(np.float32)
    following = (base + rng.normal(scale=0.1, size=layout.size)).astype(np.float16).astype(np.float32)
    assert bits(apply_transfer(exact_transfer(base, following, layout), base, layout)) == bits(following)
    assert len(exact_transfer(base, following, layout)) < 2 * layout.size


def test_half_transfer_needs_no_base():
    half = weights().astype(np.float16).astype(np.float32)
    assert bits(apply_transfer(half_transfer(half, LAYOUT), None, LAYOUT)) == bits(half)


@pytest.mark.parametrize(("form", "name"), [(TOPK_8, "topk-8"), (TOPK_4, "topk-4")])
def test_a_coded_step_is_added_to_the_base(form, name):
    codec = codec_for(CodecChoice(name=name, density=0.1))
    payload = codec.encode(weights(1), LAYOUT, np.random.default_rng(0))
    got = apply_transfer(topk_transfer(form, payload, LAYOUT), weights(), LAYOUT)
    assert bits(got) == bits(weights() + codec.decode(payload, LAYOUT).dense())


def test_a_transfer_that_needs_a_base_is_refused_without_one():
    with pytest.raises(RemoteProtocolError, match="needs the 260 weights"):
        apply_transfer(exact_transfer(weights(), weights(1), LAYOUT), None, LAYOUT)


def test_a_transfer_of_another_model_is_refused():
    other = ParameterLayout((ParameterSpec("embedding", (20, 13)),))
    with pytest.raises(RemoteProtocolError, match="expected a transfer for layout"):
        apply_transfer(exact_transfer(weights(), weights(1), LAYOUT), weights(), other)


def test_every_truncation_is_a_protocol_error():
    data = exact_transfer(weights(), weights(1), LAYOUT)
    for length in [*range(40), *range(40, len(data), 7)]:
        with pytest.raises(RemoteProtocolError):
            apply_transfer(data[:length], weights(), LAYOUT)


@settings(max_examples=300)
@given(st.integers(0, 5), st.binary(max_size=80))
def test_any_bytes_are_weights_or_a_protocol_error(form, body):
    data = b"NJT1" + bytes([form]) + bytes.fromhex(LAYOUT.fingerprint) + body
    try:
        got = apply_transfer(data, weights(), LAYOUT)
    except RemoteProtocolError:
        return
    assert got.shape == (LAYOUT.size,)


def test_a_step_beyond_the_last_float_is_refused():
    base, following = weights(), weights()
    base[0], following[0] = -3e38, 3e38
    data = exact_transfer(base, following, LAYOUT)
    with pytest.raises(RemoteProtocolError, match="range of float32"):
        apply_transfer(data, following, LAYOUT)
