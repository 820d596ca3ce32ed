"""The rules for redeeming a claim with a key, and the content of a claim file; pure functions.

A *claim* admits a number of devices for a limited time. A *credential* is a public key that was sent with a claim, and
its state. A key is certified once, and a second request with the same claim and key gets the same certificate. So a
device that lost power at any step asks again and is not enrolled twice, and a claim that was copied from a card is
useless with another key once the card's own device has used it.

A claim is burnt for a key when the key's certificate is first used (``ACTIVE``): from then on the pair is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from nightjar.wire.identifiers import DeviceId

NAME_DIGITS = 8
"""Digits of a key's hash in a device name: twenty thousand devices hardly collide, and a collision is refused."""
CLAIM_FIELDS = ("claim", "url", "authority", "owner_key")
"""Fields of :class:`ClaimMade` that the claim file holds."""


class KeyState(enum.Enum):
    """State of a key."""

    WAITING = "waiting"
    """Waits for a person's approval."""
    GRANTED = "granted"
    """Admitted; its certificate has not been issued yet."""
    ISSUED = "issued"
    """Its certificate has been issued but not used yet."""
    ACTIVE = "active"
    """Its certificate has been used."""
    REVOKED = "revoked"
    """Revoked or refused for good."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim as stored."""

    name: str  # for people and the audit log
    sha256: str  # hash of the secret text, which has 256 random bits, so a slow hash would add no protection
    device: str = ""  # name of the device that it admits; empty if names are made from ``prefix`` and the key's hash
    prefix: str = "device"  # first part of device names, if ``device`` is empty
    uses: int = 1  # how many keys it admits in total
    uses_left: int = 1  # how many more keys it admits
    approval: bool = False  # whether a person must approve each key
    labels: str = ""  # labels of the devices that it admits, as in their leases
    created_s: float  # wall-clock time
    expires_s: float  # wall-clock time


class ClaimMade(msgspec.Struct, frozen=True):
    """A new claim, with the fields of its claim file; the only answer that ever holds the secret text."""

    claim: str
    url: str
    authority: str
    name: str
    expires_s: float
    owner_key: str = ""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A device's key and its certificate."""

    key: str  # sha256 of the public key
    device: DeviceId
    claim: str  # name of the claim that admitted it; empty for a renewal
    standing: KeyState
    csr: str  # the certificate request, PEM
    certificate: str = ""  # PEM; empty before it is issued
    serial: str = ""  # serial number of the certificate, decimal; empty before it is issued
    authority: str = ""  # fingerprint of the authority that signed the certificate; empty before it is issued
    address: str  # network address that sent the request
    requested_s: float  # wall-clock time
    expires_s: float = 0.0  # when the certificate expires; 0 before it is issued


@dataclass(frozen=True, slots=True)
class Admitted:
    """The key is new and the claim is valid."""

    device: DeviceId
    standing: KeyState  # WAITING or GRANTED


@dataclass(frozen=True, slots=True)
class Known:
    """The key was sent with this claim before, and its certificate has not been used yet."""

    credential: Credential


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """The claim or the key is refused."""

    code: str  # stable name for the device and the audit log
    reason: str  # explanation for people


Verdict = Admitted | Known | ClaimRefused


def redeem(claim: Claim | None, held: Credential | None, key: str, now_s: float) -> Verdict:
    """Decide on a claim that is sent with a key, given by its sha256; ``held`` is the stored credential of the key.

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
            return Known(held)  # even if the claim has expired since: the first request was in time
        case KeyState.ACTIVE:
            return ClaimRefused(
                "claim-burnt", "the certificate of this key is in use; nobody needs to ask for it again"
            )
        case KeyState.REVOKED:
            return ClaimRefused("revoked", "this key was revoked or refused; enrol with a new claim")


def carried(made: ClaimMade) -> bytes:
    """Content of the claim file, which goes on the device's SD card."""
    return msgspec.json.encode({field: value for field in CLAIM_FIELDS if (value := getattr(made, field))}) + b"\n"
