import pytest

from wire.errors import RemoteProtocolError
from wire.signatures import public_key, signed_bytes


def test_a_signature_is_for_one_population_and_one_manifest():
    signed = {signed_bytes(population, manifest) for population in ("a", "b") for manifest in ("0" * 64, "1" * 64)}
    assert len(signed) == 4


@pytest.mark.parametrize("text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n"])
def test_a_key_is_64_hex_digits(text):
    with pytest.raises(RemoteProtocolError, match="64 lower-case hex digits"):
        public_key(text)
