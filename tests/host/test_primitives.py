"""The library's primitives by published test vectors, and what they refuse."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.host.primitives import EnrolledKey, LibraryPrimitives
from nightjar.wire.errors import RemoteProtocolError

PRIMITIVES = LibraryPrimitives()


def test_agreement_is_x25519():
    # RFC 7748, section 6.1
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    public = PRIMITIVES.public_key(bob)
    assert public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    secret = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert PRIMITIVES.agree(alice, public).hex() == secret
    assert PRIMITIVES.agree(bob, PRIMITIVES.public_key(alice)).hex() == secret


def test_a_public_key_of_small_order_is_refused():
    for public in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(RemoteProtocolError):
            PRIMITIVES.agree(b"a" * 32, public)


def test_derivation_is_hkdf_with_sha256():
    # RFC 5869, test case 3
    derived = PRIMITIVES.derive(b"\x0b" * 22, b"", 42).hex()
    assert derived == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"


def test_expansion_is_aes_in_counter_mode():
    # The block of zeros under the key of zeros: the hash key of test case 1 in the GCM specification.
    stream = PRIMITIVES.expand(bytes(16), 40)
    assert stream[:16].hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    assert len(stream) == 40


def test_what_was_sealed_under_another_key_or_changed_is_refused():
    sealed = PRIMITIVES.seal(b"k" * 16, b"text")
    assert PRIMITIVES.unseal(b"k" * 16, sealed) == b"text"
    for key, text in ((b"K" * 16, sealed), (b"k" * 16, sealed[:-1] + bytes([sealed[-1] ^ 1])), (b"k" * 16, b"")):
        with pytest.raises(RemoteProtocolError):
            PRIMITIVES.unseal(key, text)


def test_a_signature_is_of_one_key_and_one_text():
    key, other = (EnrolledKey(ec.derive_private_key(number, ec.SECP256R1())) for number in (5, 6))
    signature = key.sign(b"text")
    assert len(signature) == 64
    assert PRIMITIVES.verify(key.public, signature, b"text")
    assert not PRIMITIVES.verify(other.public, signature, b"text")
    assert not PRIMITIVES.verify(key.public, signature, b"other text")
    for enrolled, wrong in ((bytes(33), signature), (b"", signature), (key.public, bytes(64)), (key.public, b"")):
        assert not PRIMITIVES.verify(enrolled, wrong, b"text")
