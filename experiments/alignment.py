"""Private entity alignment: two parties find the people that both know, and name no other (ECDH, Meadows 1986).

A small reference protocol for two honest but curious parties, not a product. With secret scalars a and b, and
identifiers hashed to points H(x) of a curve::

    first  -> second   a H(x) of all its people, in random order
    second -> first    b a H(x) in the same order, and b H(y) of all its own, in random order
    first              the common ones are those where b a H(x) = a b H(y)
    first  -> second   places of the common ones in the second's list

Both then know the common people and how many the other has, and nothing of the others, as long as the Diffie-Hellman
problem is hard: who can guess an identifier cannot test the guess without the other's scalar. The common order is that
of ``b a H(x)``, which has nothing to do with the identifiers.

Curve25519 by ``cryptography``: X25519 is commutative, takes constant time and needs no arithmetic of ours. A hash is
counted up until it is the x of a point on the curve and not on its twist, or one bit of the hash would show. Blind RSA
gives the same with signatures of one party, of 3072 bits instead of 256.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from nightjar.experiments.parties import Post

POINTS, ANSWER, COMMON = "points", "answer", "common places"
_P, _A = 2**255 - 19, 486662  # y^2 = x^3 + A x^2 + x modulo P


def first(post: Post, other: str, people: Sequence[str]) -> list[int]:
    """Align as the party that begins.

    Args:
        post: to the other parties.
        other: name of the second party.
        people: identifiers.

    Returns:
        Places in ``people`` of those that both know, in the common order.
    """
    key, order = X25519PrivateKey.generate(), _shuffled(len(people))
    post.send(other, POINTS, [_times(key, _point(people[place])) for place in order])
    twice, theirs = post.receive(other, ANSWER)
    known = {_times(key, point): place for place, point in enumerate(theirs)}
    common = sorted((point, place) for point, place in zip(twice, order, strict=True) if point in known)
    post.send(other, COMMON, [known[point] for point, _ in common])
    return [place for _, place in common]


def second(post: Post, other: str, people: Sequence[str]) -> list[int]:
    """Align as the party that answers; see :func:`first`."""
    key, order = X25519PrivateKey.generate(), _shuffled(len(people))
    theirs = post.receive(other, POINTS)
    own = [_times(key, _point(people[place])) for place in order]
    post.send(other, ANSWER, [[_times(key, point) for point in theirs], own])
    return [order[place] for place in post.receive(other, COMMON)]


def _shuffled(size: int) -> list[int]:
    return sorted(range(size), key=lambda _: secrets.token_bytes(16))


def _times(key: X25519PrivateKey, point: bytes) -> bytes:
    return key.exchange(X25519PublicKey.from_public_bytes(point))


def _point(identifier: str) -> bytes:
    """H(identifier): the x of a point, 32 bytes, little-endian."""
    count = 0
    while True:
        x = int.from_bytes(hashlib.sha256(b"%d %b" % (count, identifier.encode())).digest(), "little") % _P
        if pow(x * x * x + _A * x * x + x, (_P - 1) // 2, _P) == 1:
            return x.to_bytes(32, "little")
        count += 1
