"""Shamir's secret sharing of a 16-byte seed over the prime field of 2**130 - 5.

Any ``threshold`` shares give the seed; fewer say nothing about it: every seed fits them. Source: Shamir 1979, "How to
share a secret".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum.primitives import SEED_BYTES

PRIME = 2**130 - 5
SHARE_BYTES = 17
COEFFICIENT_BYTES = 32
"""Random bytes for one coefficient; taken modulo the prime they are uniform but for 2**-126."""
NO_SHARE = b"\xff" * SHARE_BYTES
"""Stands for a missing share; no number of the field."""


def point_of(member: int) -> int:
    """Where the polynomial is evaluated for a member of the roster; never at 0, where the secret is."""
    return member + 1


def split(secret: bytes, threshold: int, points: Sequence[int], randomness: bytes) -> list[bytes]:
    """The shares of a secret of 16 bytes, one for each point, of which ``threshold`` give it.

    Points are different, none is 0; there are ``(threshold - 1) * COEFFICIENT_BYTES`` random bytes.

    >>> shares = split(b"sixteen bytes ok", 2, [1, 2, 3], bytes(range(32)))
    >>> combine({1: shares[0], 3: shares[2]})
    b'sixteen bytes ok'
    """
    coefficients = [int.from_bytes(secret, "little")]
    coefficients += [
        int.from_bytes(randomness[at : at + COEFFICIENT_BYTES], "little") % PRIME
        for at in range(0, (threshold - 1) * COEFFICIENT_BYTES, COEFFICIENT_BYTES)
    ]
    shares = []
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "little"))
    return shares


def combine(shares: Mapping[int, bytes]) -> bytes:
    """The secret of as many shares as the threshold, by point: the polynomial through them, at 0.

    Raises:
        RemoteProtocolError: the shares are not of one secret.
    """
    value = 0
    for point, share in shares.items():
        above = below = 1
        for other in shares:
            if other != point:
                above, below = above * other % PRIME, below * (other - point) % PRIME
        value += int.from_bytes(share, "little") * above * pow(below, -1, PRIME)
    value %= PRIME
    if value >> 8 * SEED_BYTES:
        msg = "the shares do not belong to one secret"
        raise RemoteProtocolError(msg, code="secure-sum")
    return value.to_bytes(SEED_BYTES, "little")


def is_share(share: bytes) -> bool:
    """Whether these bytes are a number of the field."""
    return int.from_bytes(share, "little") < PRIME
