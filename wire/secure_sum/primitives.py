"""The cryptography that secure sums need, as a port; :mod:`nightjar.host.primitives` is the adapter."""

from __future__ import annotations

from typing import Protocol

SEED_BYTES = 16
KEY_BYTES = 32
ENROLLED_BYTES = 33
"""A P-256 public key, compressed."""
SIGNATURE_BYTES = 64
"""An ECDSA signature, r and s."""
SEAL_BYTES = 16
"""What sealing adds to a text."""


class Primitives(Protocol):
    """Cryptographic functions; they keep no state."""

    def public_key(self, private: bytes) -> bytes:
        """The X25519 public key (32 bytes) of a private key (32 bytes)."""

    def agree(self, private: bytes, public: bytes) -> bytes:
        """The secret (32 bytes) of an X25519 agreement.

        Raises:
            RemoteProtocolError: the public key leads to no secret.
        """

    def derive(self, secret: bytes, context: bytes, size: int) -> bytes:
        """HKDF-SHA256 of a secret for one purpose: ``size`` bytes."""

    def expand(self, seed: bytes, size: int) -> bytes:
        """The first ``size`` bytes of the AES-128-CTR stream of a seed (16 bytes)."""

    def seal(self, key: bytes, text: bytes) -> bytes:
        """AES-128-GCM under a key (16 bytes) that seals this text only."""

    def unseal(self, key: bytes, sealed: bytes) -> bytes:
        """Inverse of :meth:`seal`.

        Raises:
            RemoteProtocolError: the bytes were not sealed under this key.
        """

    def verify(self, enrolled: bytes, signature: bytes, signed: bytes) -> bool:
        """Whether the owner of an enrolled key signed these bytes with ECDSA-SHA256."""
