import pytest

from nightjar.wire import topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.signatures import public_key, signed_bytes, succession_bytes


def test_a_signature_is_for_one_population_one_device_one_kind_and_one_text():
    places = [topics.announce(each) for each in ("a", "b")]
    places += [topics.down(each, device, "assignment") for each in ("a", "b") for device in ("c", "d")]
    assert len({signed_bytes(topic, text) for topic in places for text in ("{}", "[]")}) == 12


def test_a_succession_is_for_one_population_and_cannot_be_taken_for_an_order():
    said = {succession_bytes(p, s, k, n) for p in ("a", "b") for s in ("0", "1") for k in ("2", "3") for n in (0, 1)}
    assert len(said) == 16
    assert not any(each.startswith(topics.ROOT.encode()) for each in said)


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n"])
def test_a_key_is_64_hex_digits(text):
    with pytest.raises(RemoteProtocolError, match="64 lower-case hex digits"):
        public_key(text)
