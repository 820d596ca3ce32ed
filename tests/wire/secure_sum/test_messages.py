import msgspec
import pytest

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum import messages

S = bytes(32)
UP = [
    messages.MemberKeys(S, bytes(32), bytes(32), bytes(64), bytes(16)),
    messages.Shares(S, bytes(50), bytes(32)),
    messages.MaskedUpdate(S, bytes(64), b"values"),
    messages.Confirmation(S, bytes(64)),
    messages.Disclosure(S, bytes(17)),
]
DOWN = [
    messages.Roster(S, bytes(66), bytes(128)),
    messages.Deliveries(S, b"\x03", bytes(50)),
    messages.Survivors(S, b"\x03", bytes(64)),
    messages.Confirmations(S, b"\x03", bytes(128)),
]
CASES = [(message, messages.decode_up, messages.decode_down) for message in UP]
CASES += [(message, messages.decode_down, messages.decode_up) for message in DOWN]


@pytest.mark.parametrize(("message", "decode", "decode_other"), CASES, ids=lambda value: type(value).__name__)
def test_a_message_survives_the_wire_and_goes_one_way(message, decode, decode_other):
    data = messages.encode(message)
    assert decode(data) == message
    with pytest.raises(RemoteProtocolError):
        decode_other(data)


@pytest.mark.parametrize(("message", "decode", "_other"), CASES, ids=lambda value: type(value).__name__)
def test_missing_additional_and_cut_fields_are_refused(message, decode, _other):
    fields = msgspec.msgpack.decode(messages.encode(message))
    spoilt = [fields[:-1], [*fields, b"more"], [99, *fields[1:]], [fields[0], b"short", *fields[2:]], {"a": 1}]
    for data in (*map(msgspec.msgpack.encode, spoilt), messages.encode(message)[:-1], b""):
        with pytest.raises(RemoteProtocolError, match="secure sum"):
            decode(data)


def test_a_set_of_members_survives_as_a_bitmap():
    assert messages.members_of(messages.bitmap([9, 0, 3], 10), 10) == (0, 3, 9)
    for bits in (b"\x01", b"\x01\x04", b"\x01\x00\x00"):
        with pytest.raises(RemoteProtocolError):
            messages.members_of(bits, 10)


def test_parts_must_fill_the_bytes():
    assert messages.parts(b"abcd", 2) == [b"ab", b"cd"]
    assert messages.parts(b"", 2, 0) == []
    for data, count in ((b"abc", None), (b"abcd", 3)):
        with pytest.raises(RemoteProtocolError):
            messages.parts(data, 2, count)


def test_each_statement_is_about_one_thing():
    said = {
        messages.sharers_statement(S, b"\x03"),
        messages.survivors_statement(S, b"\x03", b"\x03"),
        messages.survivors_statement(S, b"\x07", b"\x03"),
        messages.survivors_statement(b"1" * 32, b"\x03", b"\x03"),
    }
    assert len(said) == 4
