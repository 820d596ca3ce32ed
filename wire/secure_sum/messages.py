"""The messages of a secure sum, and the statements that devices sign.

They are msgpack arrays, because most of their bytes are keys and signatures, which JSON would make a third longer.
Lists that follow the order of the roster or of the neighbours are one byte string of parts of equal length, without
indices; :func:`parts` cuts them. A set of members is a bitmap (:func:`bitmap`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.secure_sum.primitives import ENROLLED_BYTES, KEY_BYTES, SEAL_BYTES, SEED_BYTES, SIGNATURE_BYTES
from nightjar.wire.secure_sum.shamir import SHARE_BYTES
from nightjar.wire.secure_sum.terms import MOST_MEMBERS, SESSION_BYTES, Terms

PEER_BYTES = 2 * KEY_BYTES + SIGNATURE_BYTES
SEALED_SHARES_BYTES = 2 * SHARE_BYTES + SEAL_BYTES
COMMITMENT_BYTES = 16
MOST_VALUE_BYTES = 4 * 2**24

_Session = Annotated[bytes, Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
_Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Seed = Annotated[bytes, Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]
_Signature = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
_Members = Annotated[bytes, Meta(min_length=1, max_length=MOST_MEMBERS // 8)]  # a bitmap


class _InSession(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    session: _Session


class MemberKeys(_InSession, frozen=True, tag=1):
    """Device to coordinator: I take part."""

    channel: _Key
    """X25519 key by which shares are sealed for this device."""
    mask: _Key
    """X25519 key from which its pair masks come."""
    signature: _Signature
    """Of :func:`keys_statement`."""
    commitment: _Seed
    """Fits the seed of the self mask only, so that wrong shares are noticed."""


class Roster(_InSession, frozen=True, tag=2):
    """Coordinator to device: these take part."""

    enrolled: Annotated[bytes, Meta(max_length=ENROLLED_BYTES * MOST_MEMBERS)]
    """The members' enrolled keys, in the order of :func:`nightjar.wire.secure_sum.graph.in_order`."""
    peers: Annotated[bytes, Meta(max_length=PEER_BYTES * MOST_MEMBERS)]
    """Channel key, mask key and signature of each neighbour."""


class Shares(_InSession, frozen=True, tag=3):
    """Device to coordinator: shares of my seeds, sealed for each neighbour."""

    sealed: Annotated[bytes, Meta(max_length=SEALED_SHARES_BYTES * MOST_MEMBERS)]
    """For each neighbour, a share of the mask key's seed and one of the self mask's."""
    commitments: Annotated[bytes, Meta(max_length=2 * COMMITMENT_BYTES * MOST_MEMBERS)]
    """For each neighbour, :func:`share_commitment` of the same two, so that a wrong share that is given back is told
    from one that was dealt wrong."""


class Deliveries(_InSession, frozen=True, tag=4):
    """Coordinator to device: these have shared."""

    sharers: _Members
    sealed: Annotated[bytes, Meta(max_length=SEALED_SHARES_BYTES * MOST_MEMBERS)]
    """What the neighbours among them sealed for this device."""


class MaskedUpdate(_InSession, frozen=True, tag=5):
    """Device to coordinator: my masked update."""

    signature: _Signature
    """Of :func:`sharers_statement`."""
    values: Annotated[bytes, Meta(max_length=MOST_VALUE_BYTES)]
    """The masked update (:func:`nightjar.wire.secure_sum.masks.pack`)."""


class Survivors(_InSession, frozen=True, tag=6):
    """Coordinator to device: these have reported."""

    survivors: _Members
    signatures: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES * MOST_MEMBERS)]
    """Those that came with the reports of the neighbours among them."""


class Confirmation(_InSession, frozen=True, tag=7):
    """Device to coordinator: this is the list that I was given."""

    signature: _Signature
    """Of :func:`survivors_statement`."""


class Confirmations(_InSession, frozen=True, tag=8):
    """Coordinator to device: others were given the same list."""

    signers: _Members
    signatures: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES * MOST_MEMBERS)]
    """Theirs, of :func:`survivors_statement`."""


class Disclosure(_InSession, frozen=True, tag=9):
    """Device to coordinator: what removes the masks."""

    shares: Annotated[bytes, Meta(max_length=SHARE_BYTES * MOST_MEMBERS)]
    """For each neighbour that has shared, a share of the self mask's seed if it has reported, else of the mask key's;
    ``NO_SHARE`` where what was delivered could not be opened."""


Up = MemberKeys | Shares | MaskedUpdate | Confirmation | Disclosure
Down = Roster | Deliveries | Survivors | Confirmations

MessageT = TypeVar("MessageT")

_UP: msgspec.msgpack.Decoder[Up] = msgspec.msgpack.Decoder(Up)
_DOWN: msgspec.msgpack.Decoder[Down] = msgspec.msgpack.Decoder(Down)


def encode(message: Up | Down) -> bytes:
    """Encode a message."""
    return msgspec.msgpack.encode(message)


def decode_up(data: bytes) -> Up:
    """Decode a device's message.

    Raises:
        RemoteProtocolError: it is none.
    """
    return _decode(_UP, data)


def decode_down(data: bytes) -> Down:
    """Decode a coordinator's message.

    Raises:
        RemoteProtocolError: it is none.
    """
    return _decode(_DOWN, data)


def _decode(decoder: msgspec.msgpack.Decoder[MessageT], data: bytes) -> MessageT:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not a message of a secure sum: {error}"
        raise RemoteProtocolError(msg, code="secure-sum") from error


def keys_statement(terms: Terms, channel: bytes, mask: bytes) -> bytes:
    """What a device signs about its keys."""
    return b"keys" + terms.digest + channel + mask


def roster_digest(terms: Terms, enrolled: Iterable[bytes]) -> bytes:
    """(32,) a hash of the terms and the roster."""
    return hashlib.sha256(terms.digest + b"".join(enrolled)).digest()


def sharers_statement(roster: bytes, sharers: bytes) -> bytes:
    """What a device signs about its :func:`roster_digest` and the bitmap of those who have shared."""
    return b"sharers" + roster + sharers


def survivors_statement(roster: bytes, sharers: bytes, survivors: bytes) -> bytes:
    """What a device signs about its :func:`roster_digest` and the bitmaps of those who have shared and reported."""
    return b"survivors" + roster + sharers + survivors


def share_commitment(roster: bytes, dealer: int, receiver: int, share: bytes) -> bytes:
    """(16,) fits this share of a dealer for a receiver only; ``roster`` is the :func:`roster_digest`."""
    ends = dealer.to_bytes(2, "little") + receiver.to_bytes(2, "little")
    return hashlib.sha256(b"share" + roster + ends + share).digest()[:COMMITMENT_BYTES]


def bitmap(members: Iterable[int], cohort: int) -> bytes:
    """A set of members as bits, the lowest first.

    >>> bitmap([0, 9], 10).hex()
    '0102'
    """
    return sum(1 << member for member in set(members)).to_bytes((cohort + 7) // 8, "little")


def members_of(bits: bytes, cohort: int) -> tuple[int, ...]:
    """Inverse of :func:`bitmap`, ascending.

    Raises:
        RemoteProtocolError: the bitmap is not of a cohort of this size.
    """
    number = int.from_bytes(bits, "little")
    if len(bits) != (cohort + 7) // 8 or number >> cohort:
        msg = f"expected a bitmap of {cohort} members, got {len(bits)} bytes"
        raise RemoteProtocolError(msg, code="secure-sum")
    return tuple(member for member in range(cohort) if number >> member & 1)


def parts(data: bytes, size: int, count: int | None = None) -> list[bytes]:
    """Cut a byte string into parts of equal length, exactly ``count`` of them if that is given.

    Raises:
        RemoteProtocolError: it is not so many parts.
    """
    if len(data) % size or count not in {None, len(data) // size}:
        msg = f"expected {'some' if count is None else count} parts of {size} bytes, got {len(data)} bytes"
        raise RemoteProtocolError(msg, code="secure-sum")
    return [data[at : at + size] for at in range(0, len(data), size)]
