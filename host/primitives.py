"""The cryptography of secure sums, by ``cryptography``: the adapter of :mod:`nightjar.wire.secure_sum.primitives`.

The package takes eight megabytes of memory, so an agent imports this module in the trainer's process only.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum.primitives import SIGNATURE_BYTES

_NONCE = bytes(12)  # a key seals one text
_HALF = SIGNATURE_BYTES // 2


class LibraryPrimitives:
    """The primitives as the library has them."""

    def public_key(self, private: bytes) -> bytes:
        """The X25519 public key of a private key."""
        return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()

    def agree(self, private: bytes, public: bytes) -> bytes:
        """The secret of an X25519 agreement.

        Raises:
            RemoteProtocolError: the public key leads to no secret.
        """
        try:
            return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            msg = "expected an X25519 public key, got one of small order"
            raise RemoteProtocolError(msg, code="secure-sum") from error

    def derive(self, secret: bytes, context: bytes, size: int) -> bytes:
        """HKDF-SHA256."""
        return HKDF(hashes.SHA256(), size, None, context).derive(secret)

    def expand(self, seed: bytes, size: int) -> bytes:
        """AES-128-CTR from zero."""
        return Cipher(algorithms.AES128(seed), modes.CTR(bytes(16))).encryptor().update(bytes(size))

    def seal(self, key: bytes, text: bytes) -> bytes:
        """AES-128-GCM."""
        return AESGCM(key).encrypt(_NONCE, text, None)

    def unseal(self, key: bytes, sealed: bytes) -> bytes:
        """Inverse of :meth:`seal`.

        Raises:
            RemoteProtocolError: the bytes were not sealed under this key.
        """
        try:
            return AESGCM(key).decrypt(_NONCE, sealed, None)
        except InvalidTag as error:
            msg = "a sealed share cannot be opened"
            raise RemoteProtocolError(msg, code="secure-sum") from error

    def verify(self, enrolled: bytes, signature: bytes, signed: bytes) -> bool:
        """ECDSA over P-256 with SHA-256."""
        r, s = int.from_bytes(signature[:_HALF]), int.from_bytes(signature[_HALF:])
        try:
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), enrolled)
            key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            return False
        return True


class EnrolledKey:
    """A device's enrolled key, for signing."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)

    def sign(self, signed: bytes) -> bytes:
        """An ECDSA-SHA256 signature, r and s."""
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(_HALF) + s.to_bytes(_HALF)
