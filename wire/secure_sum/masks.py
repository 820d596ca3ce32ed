"""Masks: random numbers modulo 2**bits that are added to an update, and the bytes of a masked update.

The masks of a pair are the same numbers; the lower member adds them and the higher one subtracts them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.secure_sum.primitives import KEY_BYTES, SEED_BYTES, Primitives
from nightjar.wire.secure_sum.terms import Terms

Words = npt.NDArray[np.uint32]


def mask_key(seed: bytes, primitives: Primitives) -> bytes:
    """The private key (32 bytes) of pair masks; its seed (16 bytes) is disclosed if the device drops out."""
    return primitives.derive(seed, b"mask key", KEY_BYTES)


def commitment(seed: bytes, primitives: Primitives) -> bytes:
    """Fits the seed of a self mask only, and does not help to guess it (16 bytes)."""
    return primitives.derive(seed, b"commitment", SEED_BYTES)


def self_mask_seed(seed: bytes, primitives: Primitives) -> bytes:
    """The stream's seed (16 bytes) of a device's self mask."""
    return primitives.derive(seed, b"self mask", SEED_BYTES)


def pair_mask_seed(private: bytes, public: bytes, terms: Terms, primitives: Primitives) -> bytes:
    """The stream's seed (16 bytes) of a pair's mask, from the mask key of one and the public mask key of the other.

    Raises:
        RemoteProtocolError: the public key leads to no secret.
    """
    return primitives.derive(primitives.agree(private, public), b"pair mask" + terms.digest, SEED_BYTES)


def total_mask(seeds: Iterable[tuple[int, bytes]], terms: Terms, primitives: Primitives) -> Words:
    """The sum of masks: (values,) uint32, of which only the lowest ``bits`` bits mean anything.

    Each mask has a sign, 1 or -1, and the seed of its stream.
    """
    total = np.zeros(terms.values, np.uint32)
    word = np.dtype("<u2" if terms.bits <= 16 else "<u4")
    for sign, seed in seeds:
        mask = np.frombuffer(primitives.expand(seed, terms.values * word.itemsize), word)
        (np.add if sign > 0 else np.subtract)(total, mask, out=total)
    return total


def sign_of(member: int, other: int) -> int:
    """1 if the member adds the mask it has with the other, -1 if it subtracts it."""
    return 1 if member < other else -1


def check_values(values: Words, terms: Terms) -> None:
    """Check an update before it is masked.

    Raises:
        LocalProtocolError: it does not have as many values, or a value does not fit.
    """
    if values.shape != (terms.values,) or values.dtype != np.uint32 or int(values.max()) >> terms.bits:
        msg = f"expected {terms.values} uint32 below 2**{terms.bits}, got {values.dtype} {values.shape}"
        raise LocalProtocolError(msg)


def packed_bytes(terms: Terms) -> int:
    """Length of a masked update in bytes."""
    return (terms.values * terms.bits + 7) // 8


def pack(values: Words, terms: Terms) -> bytes:
    """The lowest ``bits`` bits of each value, without gaps; the last byte is padded with zeros.

    >>> pack(np.array([1, 5], np.uint32), Terms(session=bytes(32), threshold=2, minimum=3, values=2, bits=3)).hex()
    '34'
    """
    bits = np.unpackbits(values.astype(">u4").view(np.uint8)).reshape(-1, 32)
    return np.packbits(bits[:, 32 - terms.bits :]).tobytes()


def unpack(data: bytes, terms: Terms) -> Words:
    """Inverse of :func:`pack`.

    Raises:
        RemoteProtocolError: the data does not have the length of a masked update.
    """
    if len(data) != packed_bytes(terms):
        msg = f"expected a masked update of {packed_bytes(terms)} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="secure-sum")
    bits = np.zeros((terms.values, 32), np.uint8)
    found = np.unpackbits(np.frombuffer(data, np.uint8), count=terms.values * terms.bits)
    bits[:, 32 - terms.bits :] = found.reshape(-1, terms.bits)
    return np.packbits(bits).view(">u4").astype(np.uint32)
