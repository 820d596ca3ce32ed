"""Whole numbers under Paillier's encryption (Paillier 1999), by the library ``phe``: ciphertexts can be added.

``phe`` encodes floats with a public exponent that tells their size, so numbers here are fixed point and taken modulo n.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np
from phe import EncryptedNumber as Encrypted
from phe import PaillierPrivateKey as Private
from phe import PaillierPublicKey as Public

__all__ = [
    "Encrypted",
    "Private",
    "Public",
    "decrypt",
    "encrypt",
    "fixed",
    "from_bytes",
    "public_key",
    "random_below_n",
    "to_bytes",
]


def public_key(n: bytes) -> Public:
    """The public key of a modulus, big-endian."""
    return Public(int.from_bytes(n))


def fixed(values: Any, bits: int) -> list[int]:
    """Numbers as multiples of 2^-bits, rounded.

    >>> fixed([0.5, -1.25], 8)
    [128, -320]
    """
    return [int(each) for each in np.rint(np.asarray(values, np.float64) * 2.0**bits).astype(np.int64)]


def encrypt(public: Public, number: int) -> Encrypted:
    """A fresh ciphertext of a whole number of any sign."""
    return Encrypted(public, public.raw_encrypt(number % public.n))


def decrypt(private: Private, number: Encrypted) -> int:
    """The number, the nearest to 0 of those equal to it modulo n."""
    n: int = private.public_key.n
    found: int = private.raw_decrypt(number.ciphertext(be_secure=False))
    return found - n if found > n // 2 else found


def random_below_n(public: Public) -> int:
    """A mask that hides a number completely: uniform modulo n."""
    return secrets.randbelow(public.n)


def to_bytes(numbers: Iterable[Encrypted]) -> list[bytes]:
    """Ciphertexts as they are sent: twice as long as n, each."""
    numbers = list(numbers)
    width = (numbers[0].public_key.nsquare.bit_length() + 7) // 8 if numbers else 0
    # Ciphertexts here are fresh, or sums with a fresh one; phe would randomise those of sums again.
    return [int(each.ciphertext(be_secure=False)).to_bytes(width) for each in numbers]


def from_bytes(public: Public, sent: Iterable[bytes]) -> list[Encrypted]:
    """Inverse of :func:`to_bytes`."""
    return [Encrypted(public, int.from_bytes(each)) for each in sent]
