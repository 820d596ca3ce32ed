import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.codec.rice import BitReader, rice_encode, rice_parameter
from wire.errors import RemoteProtocolError


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 20)), max_size=30))
def test_round_trip_with_a_parameter_per_value(pairs):
    values = np.array([v for v, _ in pairs], np.int64)
    parameters = np.array([p for _, p in pairs], np.int64)
    reader = BitReader(np.packbits(rice_encode(values, parameters)).tobytes())
    assert reader.rice(parameters).tolist() == values.tolist()
    reader.finish()


@given(st.integers(0, 2**39), st.integers(1, 2**39))
def test_parameter_is_the_integer_formula_exactly(numerator, denominator):
    got = int(rice_parameter(np.array([numerator]), np.array([denominator]))[0])
    floor = (3 * numerator) // (4 * denominator)
    assert got == max(floor.bit_length() - 1, 0)


def test_missing_bits_are_a_protocol_error():
    with pytest.raises(RemoteProtocolError, match="end too early"):
        BitReader(b"\0").rice(np.zeros(1, np.int64))
    with pytest.raises(RemoteProtocolError, match="end too early"):
        BitReader(b"\x80").rice(np.full(1, 30, np.int64))


def test_a_quotient_that_would_overflow_is_refused():
    bits = bytes(200_000) + b"\x01"
    with pytest.raises(RemoteProtocolError, match="62 bits"):
        BitReader(bits + bytes(10)).rice(np.full(1, 45, np.int64))
