"""What becomes of a claim, and of the key that somebody shows with it. Pure.

A *claim* lets a number of devices in, for a while. A *credential* is a public key that came with a claim, and what
became of it: a key is certified once, and a second request with the same claim and key gets the same
certificate. So a device that lost power at any step asks again and is not enrolled twice, and a claim that was copied
from a card is worth nothing to another key once the card's own was there.

A claim is burnt for a key when its certificate was seen at work (``ACTIVE``): from then on the pair is refused, too.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from wire.identifiers import DeviceId

NAME_DIGITS = 8
"""Of a key's hash in the name of a device: enough that twenty thousand hardly collide, and a collision is refused."""


class KeyState(enum.Enum):
    """What became of a key."""

    WAITING = "waiting"
    """For a person who lets it in."""
    GRANTED = "granted"
    """It is to get a certificate."""
    ISSUED = "issued"
    """It has one, which was not seen yet."""
    ACTIVE = "active"
    """Its certificate was seen at work."""
    REVOKED = "revoked"
    """For good."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as it is kept.

    Attributes:
        name: for people and the audit log.
        sha256: of its characters; they have 256 random bits, so a slow hash would protect nothing.
        device: the name that its device gets; empty for names of ``prefix`` and the key's hash.
        prefix: see above.
        uses: how many keys it lets in.
        uses_left: how many more.
        approval: a person lets each of them in.
        created_s: wall-clock time.
        expires_s: wall-clock time.
    """

    name: str
    sha256: str
    device: str = ""
    prefix: str = "device"
    uses: int = 1
    uses_left: int = 1
    approval: bool = False
    created_s: float
    expires_s: float


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A key, and what became of it.

    Attributes:
        key: sha256 of the public key.
        device: whom it stands for.
        claim: by which it came; empty for a renewal.
        standing: see :class:`KeyState`.
        csr: the request, PEM.
        certificate: PEM; empty before.
        serial: of the certificate, decimal; empty before.
        authority: fingerprint of the authority that signed it; empty before.
        address: where it was asked from.
        requested_s: wall-clock time.
        expires_s: when the certificate ends; 0 before.
    """

    key: str
    device: DeviceId
    claim: str
    standing: KeyState
    csr: str
    certificate: str = ""
    serial: str = ""
    authority: str = ""
    address: str
    requested_s: float
    expires_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """This key is new, the claim is good.

    Attributes:
        device: whom it will stand for.
        standing: WAITING or GRANTED.
    """

    device: DeviceId
    standing: KeyState


@dataclass(frozen=True, slots=True)
class Known:
    """This key came before, with this claim, and is still on its way."""

    credential: Credential


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """No.

    Attributes:
        code: stable name for the device and the audit log.
        reason: in words.
    """

    code: str
    reason: str


Verdict = Admitted | Known | ClaimRefused


def redeem(claim: Claim | None, held: Credential | None, key: str, now_s: float) -> Verdict:
    """What becomes of a claim that somebody shows with a key.

    Args:
        claim: with the hash of the characters that were shown; None if there is none.
        held: what is known of the key.
        key: sha256 of the public key.
        now_s: wall-clock time.

    >>> claim = Claim(name="kitchen", sha256="", device="pi-1", created_s=0.0, expires_s=10.0)
    >>> redeem(claim, None, 64 * "a", 5.0)
    Admitted(device='pi-1', standing=<KeyState.GRANTED: 'granted'>)
    >>> redeem(claim, None, 64 * "a", 10.0).code
    'claim-expired'
    """
    if claim is None:
        return ClaimRefused("claim-unknown", "there is no such claim; it may have been revoked")
    if held is not None:
        return _again(claim, held)
    if now_s >= claim.expires_s:
        return ClaimRefused("claim-expired", "the claim is too old; make another with 'enrol-token create'")
    if claim.uses_left < 1:
        return ClaimRefused("claim-used", "the claim was used by another key; if that was not you, revoke its device")
    device = DeviceId(claim.device or f"{claim.prefix}-{key[:NAME_DIGITS]}")
    return Admitted(device, KeyState.WAITING if claim.approval else KeyState.GRANTED)


def _again(claim: Claim, held: Credential) -> Verdict:
    if held.claim != claim.name:
        return ClaimRefused("key-known", "this key came with another claim; a device makes a new key for a new claim")
    match held.standing:
        case KeyState.WAITING | KeyState.GRANTED | KeyState.ISSUED:
            return Known(held)  # also when the claim has expired meanwhile: it was in time
        case KeyState.ACTIVE:
            return ClaimRefused(
                "claim-burnt", "the certificate of this key is in use; nobody needs to ask for it again"
            )
        case KeyState.REVOKED:
            return ClaimRefused("revoked", "this key was revoked or refused; enrol with a new claim")
