import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wire.strategies import layouts
from wire.codec.rice import decode_positions, encode_positions
from wire.errors import RemoteProtocolError
from wire.parameters import ParameterLayout, ParameterSpec

MATRIX = ParameterLayout((ParameterSpec("m", (50, 40)),))


@given(layouts, st.data())
def test_round_trip_of_any_set_of_positions(layout, data):
    chosen = data.draw(st.sets(st.integers(0, layout.size - 1)))
    indices = np.array(sorted(chosen), np.int64)
    assert decode_positions(encode_positions(indices, layout), layout).tolist() == indices.tolist()


@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("none", []),
        ("all", range(2000)),
        ("one row", range(80, 120)),
        ("one column", range(7, 2000, 40)),
        ("first", [0]),
        ("last", [1999]),
        ("one per row", [40 * r + (7 * r) % 40 for r in range(50)]),
    ],
)
def test_round_trip_of_adversarial_sets(name, indices):
    indices = np.array(list(indices), np.int64)
    assert decode_positions(encode_positions(indices, MATRIX), MATRIX).tolist() == indices.tolist()


def test_column_structure_is_used_where_it_is_shorter():
    layout = ParameterLayout((ParameterSpec("m", (400, 400)),))
    column = np.arange(17, 160_000, 400)
    scattered = np.sort(np.random.default_rng(0).choice(160_000, 400, replace=False))
    assert len(encode_positions(column, layout)) * 5 < len(encode_positions(scattered, layout))


def test_uniform_positions_cost_at_most_5_percent_more_than_their_entropy():
    n, k = 200_000, 2_000
    layout = ParameterLayout((ParameterSpec("m", (2_000, 100)),))
    indices = np.sort(np.random.default_rng(0).choice(n, k, replace=False))
    entropy_bits = n * (-(k / n) * np.log2(k / n) - (1 - k / n) * np.log2(1 - k / n))
    assert len(encode_positions(indices, layout)) * 8 < 1.05 * entropy_bits


@settings(max_examples=400)
@given(layouts, st.binary(max_size=60))
def test_any_bytes_are_positions_or_a_protocol_error(layout, data):
    try:
        indices = decode_positions(data, layout)
    except RemoteProtocolError:
        return
    assert (np.diff(indices) > 0).all()
    assert indices.size == 0 or (indices[0] >= 0 and indices[-1] < layout.size)


def test_a_short_message_cannot_ask_for_much_memory():
    layout = ParameterLayout((ParameterSpec("m", (10_000, 10_000)),))
    for seed in range(200):
        data = np.random.default_rng(seed).bytes(20)
        with contextlib.suppress(RemoteProtocolError):
            assert decode_positions(data, layout).size <= 160


def test_trailing_bytes_are_refused():
    data = encode_positions(np.array([3, 5], np.int64), MATRIX)
    with pytest.raises(RemoteProtocolError, match="left after the last position"):
        decode_positions(data + b"\0", MATRIX)


@given(layouts, st.floats(0, 1), st.integers(0, 9))
def test_positions_never_need_a_byte_for_each_parameter(layout, density, seed):
    """The bound that keeps the memory of the decoder in proportion to the model."""
    chosen = np.flatnonzero(np.random.default_rng(seed).random(layout.size) < density)
    assert len(encode_positions(chosen, layout)) <= layout.size + 16 * len(layout.tensors)


def test_more_bytes_than_positions_can_need_are_refused_before_they_are_unpacked():
    with pytest.raises(RemoteProtocolError, match="have at most"):
        decode_positions(bytes(MATRIX.size + 17), MATRIX)
