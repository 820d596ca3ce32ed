import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.wire.codec.fields import WIDEST, FieldReader, pack
from nightjar.wire.errors import RemoteProtocolError


@st.composite
def numbers_of_widths(draw):
    widths = draw(st.lists(st.integers(0, WIDEST), max_size=40))
    return np.array([draw(st.integers(0, 2**w - 1)) for w in widths], np.int64), np.array(widths, np.int64)


@given(numbers_of_widths(), st.integers(0, 40))
def test_numbers_come_back_in_one_piece_or_two(numbers, cut):
    values, widths = numbers
    data = pack(values, widths)
    assert len(data) == (int(widths.sum()) + 7) // 8
    reader = FieldReader(data)
    got = np.concatenate([reader.take(widths[:cut]), reader.take(widths[cut:])])
    assert got.tolist() == values.tolist()
    reader.finish()


@given(numbers_of_widths())
def test_a_bit_more_than_there_is_is_refused(numbers):
    values, widths = numbers
    data = pack(values, widths)
    with pytest.raises(RemoteProtocolError, match="ends too early"):
        FieldReader(data).take(np.append(widths, 8 * len(data) - int(widths.sum()) + 1))


@pytest.mark.parametrize("data", [b"\x80\x00", b"\x81"])
def test_what_is_left_over_is_refused_if_it_is_a_byte_or_a_one(data):
    reader = FieldReader(data)
    assert reader.one(1) == 1
    with pytest.raises(RemoteProtocolError, match="bits are left"):
        reader.finish()
