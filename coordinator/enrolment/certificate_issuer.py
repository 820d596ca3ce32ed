"""Where devices get their certificates: a claim and a key in, a certificate out; and renewals.

Puts together what is decided (:mod:`coordinator.enrolment.claims`), kept (:mod:`coordinator.enrolment.register`) and
signed (:mod:`coordinator.enrolment.authority_process`). Each step can be cut off and asked for again: a key has one
certificate.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from cryptography import x509

from coordinator.config import CoordinatorConfig
from coordinator.enrolment.authority import fingerprint, key_fingerprint, requested_key
from coordinator.enrolment.authority_process import AuthorityClient, CertifyDevice
from coordinator.enrolment.claims import Admitted, Claim, ClaimRefused, Credential, KeyState, Known
from coordinator.enrolment.register import Register
from coordinator.enrolment.tls_files import DAY_S, FOLDER, RENEWED_AFTER, authorities_in
from coordinator.ports import Clock
from wire.errors import UnavailableError
from wire.identifiers import DeviceId

PREFIX = "njc_"
"""Tells a claim from a token; secret scanners look for such things."""
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class Certified:
    """A device's certificate, and what it needs to use it.

    Attributes:
        device: whom it stands for.
        certificate: PEM.
        expires_s: wall-clock time.
        renew_s: when to ask for the next one; wall-clock time.
        authorities: PEM, of every authority that the device must trust.
    """

    device: DeviceId
    certificate: str
    expires_s: float
    renew_s: float
    authorities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A person has to let it in."""

    device: DeviceId


Outcome = Certified | Waiting | ClaimRefused


def new_claim(
    name: str, now_s: float, lifetime_s: float, *, device: str, prefix: str, uses: int, approval: bool
) -> tuple[str, Claim]:
    """A fresh claim: its characters, which are shown once, and what is kept of it."""
    characters = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return characters, Claim(
        name=name,
        sha256=claim_hash(characters),
        device=device,
        prefix=prefix,
        uses=uses,
        uses_left=uses,
        approval=approval,
        created_s=now_s,
        expires_s=now_s + lifetime_s,
    )


def claim_hash(characters: str) -> str:
    """What is kept of a claim."""
    return hashlib.sha256(characters.encode()).hexdigest()


class CertificateIssuer:
    """Certifies keys. Any thread.

    Args:
        config: of the coordinator.
        register: of claims and keys.
        signer: the authority.
        clock: wall-clock time.
        coordinator_key: public key of the coordinator's orders, in hex.
        recovery_key: public key that may name another one; empty if there is none.

    Attributes:
        register: as given.
        coordinator_key: that signs orders, as hex; told to devices.
        recovery_key: that may replace it, as hex; told to devices.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        register: Register,
        signer: AuthorityClient,
        clock: Clock,
        coordinator_key: str,
        recovery_key: str = "",
    ) -> None:
        self.register = register
        self.coordinator_key = coordinator_key
        self.recovery_key = recovery_key
        self._config = config
        self._signer = signer
        self._clock = clock

    def authorities(self) -> tuple[str, ...]:
        """Certificates that devices must trust, PEM; the one that signs servers first.

        Those that our servers have read: in the seconds after a rotation the authority knows others already.

        Raises:
            UnavailableError: the disk does not work.
        """
        return authorities_in(self._config.data_dir / FOLDER)

    def enrol(self, claim: str, csr: str, address: str) -> Outcome:
        """What a claim and a request for a certificate come to.

        Raises:
            RemoteProtocolError: it is not a valid certificate request.
            UnavailableError: the database or the authority does not work now.
        """
        key = key_fingerprint(requested_key(csr))
        verdict = self.register.redeem(claim_hash(claim), key, csr, address, self._clock.now_s())
        match verdict:
            case ClaimRefused():
                return verdict
            case Admitted(device, KeyState.WAITING):
                return Waiting(device)
            case Known(Credential(standing=KeyState.WAITING, device=device)):
                return Waiting(device)
            case Admitted() | Known():
                held = self.register.credential(key)
                return ClaimRefused("revoked", "it was revoked just now") if held is None else self._certify(held)

    def renew(self, device: DeviceId, csr: str, address: str) -> Outcome:
        """The next certificate of a device that showed its last one.

        Raises:
            RemoteProtocolError: it is not a valid certificate request.
            UnavailableError: the database or the authority does not work now.
        """
        key = key_fingerprint(requested_key(csr))
        held = self.register.renew(key, device, csr, address, self._clock.now_s())
        if isinstance(held, ClaimRefused):
            return held
        if held.device != device or held.standing is KeyState.REVOKED:
            return ClaimRefused("key-known", "this key came before; a device makes a new key for each renewal")
        return self._certify(held)

    def standing(self, serial: str) -> Certified | None:
        """The certificate with a serial number as its device should know it; None if there is none any more."""
        held = self.register.by_serial(serial)
        return None if held is None else self._as_certified(held)

    def _certify(self, held: Credential) -> Certified:
        if held.standing is KeyState.GRANTED:
            life_days = self._config.enrolment.device_days
            (certificate,) = self._signer.ask(CertifyDevice(held.csr, held.device, life_days))
            read = x509.load_pem_x509_certificate(certificate.encode())
            signed_by = next((each for each in self.authorities() if _signed(read, each)), None)
            if signed_by is None:
                msg = "the authority was replaced just now; try again in some seconds"
                raise UnavailableError(msg)
            held = self.register.issue(
                held.key,
                certificate,
                str(read.serial_number),
                fingerprint(signed_by),
                read.not_valid_after_utc.timestamp(),
            )
        return self._as_certified(held)

    def _as_certified(self, held: Credential) -> Certified:
        authorities = self.authorities()
        life_s = self._config.enrolment.device_days * DAY_S
        due_s = held.expires_s - (1 - RENEWED_AFTER) * life_s
        if held.authority != fingerprint(authorities[-1]):
            due_s = 0.0  # the authority is being replaced: at once
        return Certified(held.device, held.certificate, held.expires_s, due_s, authorities)


def _signed(certificate: x509.Certificate, authority: str) -> bool:
    return certificate.issuer == x509.load_pem_x509_certificate(authority.encode()).subject
