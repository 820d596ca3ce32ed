"""The certificate issuer: exchanges a claim and a key for a certificate, and renews certificates.

Combines the decision (:mod:`nightjar.coordinator.enrolment.claims`), the records
(:mod:`nightjar.coordinator.enrolment.register`) and the signature
(:mod:`nightjar.coordinator.tls.authority_process`). Each step can be interrupted and repeated: a key gets only
one certificate.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.claims import Admitted, Claim, ClaimRefused, Credential, KeyState, Known
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.ports import Clock
from nightjar.coordinator.tls.authority import fingerprint, key_fingerprint, requested_key
from nightjar.coordinator.tls.authority_process import AuthorityClient, CertifyDevice
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import DAY_S, RENEWED_AFTER, authorities_in, signed_ahead
from nightjar.host.trusted_time import in_utc
from nightjar.wire.enrolment import renewal_bytes
from nightjar.wire.errors import RemoteProtocolError, UnavailableError
from nightjar.wire.identifiers import DeviceId

PREFIX = "njc_"
"""Distinguishes a claim from a token; secret scanners look for such prefixes."""
_RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True)
class Certified:
    """A device's certificate, and what the device needs to use it."""

    device: DeviceId  # the device that it identifies
    certificate: str  # PEM
    expires_s: float  # wall-clock time
    renew_s: float  # when to ask for the next certificate; wall-clock time
    authorities: tuple[str, ...]  # certificates of all authorities that the device must trust, PEM


@dataclass(frozen=True, slots=True)
class Waiting:
    """The device waits for a person's approval."""

    device: DeviceId


Outcome = Certified | Waiting | ClaimRefused


def new_claim(
    name: str, now_s: float, lifetime_s: float, *, device: str, prefix: str, uses: int, approval: bool, labels: str = ""
) -> tuple[str, Claim]:
    """A fresh claim: its secret text, which is shown once, and the record to store."""
    characters = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return characters, Claim(
        name=name,
        sha256=claim_hash(characters),
        device=device,
        prefix=prefix,
        uses=uses,
        uses_left=uses,
        approval=approval,
        labels=labels,
        created_s=now_s,
        expires_s=now_s + lifetime_s,
    )


def claim_hash(characters: str) -> str:
    """sha256 of a claim's secret text, as hex; only this hash is stored."""
    return hashlib.sha256(characters.encode()).hexdigest()


class CertificateIssuer:
    """Issues and renews device certificates. Thread-safe.

    Attributes:
        register: stores claims and keys.
        coordinator_key: public key that verifies the coordinator's orders, as hex; sent to devices.
        recovery_key: public key that may authorise a new ``coordinator_key``, as hex; empty if there is none.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        register: Register,
        signer: AuthorityClient,
        clock: Clock,
        coordinator_key: str,
        recovery_key: str = "",
        distrust: Callable[[], str] = str,
    ) -> None:
        self.register = register
        self.coordinator_key = coordinator_key
        self.recovery_key = recovery_key
        self._config = config
        self._signer = signer
        self._clock = clock
        self._distrust = distrust  # why the clock is not trusted; empty if it is

    def authorities(self) -> tuple[str, ...]:
        """Certificates of the authorities that devices must trust, PEM; the one that signs server certificates first.

        Read from the servers' folder: for some seconds after a rotation the authority's own list is newer.

        Raises:
            UnavailableError: the disk does not work.
        """
        return authorities_in(self._config.data_dir / FOLDER)

    def enrol(self, claim: str, csr: str, address: str) -> Outcome:
        """Redeem a claim with a certificate request.

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
        """Issue the next certificate to a device that authenticated with its current one.

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

    def renew_expired(self, csr: str, certificate: str, proof: str, address: str) -> Outcome:
        """Issue the next certificate to a device whose certificate ended while it was off.

        The device proves that it has the certificate's key. The certificate must be the newest that the device used,
        so that a key that was replaced since is worth nothing; and it may have ended at most
        ``enrolment.renew_expired_days`` ago.

        Raises:
            RemoteProtocolError: it is not a valid certificate request, or no certificate.
            UnavailableError: the database or the authority does not work now.
        """
        requested_key(csr)
        serial = proven_serial(csr, certificate, proof)
        held = None if serial is None else self.register.newest_of(serial)
        if held is None or held.certificate.strip() != certificate.strip():
            return ClaimRefused("revoked", "this certificate does not count any more: enrol with a new claim")
        ended_s = self._clock.now_s() - held.expires_s
        if ended_s > self._config.enrolment.renew_expired_days * DAY_S:
            when = in_utc(held.expires_s)
            return ClaimRefused("expired", f"the certificate ended on {when}, too long ago: enrol with a new claim")
        return self.renew(held.device, csr, address)

    def standing(self, serial: str) -> Certified | None:
        """The live certificate with a serial number, and what its device needs to use it; None if there is none."""
        held = self.register.by_serial(serial)
        return None if held is None else self._as_certified(held)

    def _certify(self, held: Credential) -> Certified:
        if held.standing is KeyState.GRANTED:
            if why := self._distrust():
                msg = f"no certificate is issued for now: {why}"
                raise UnavailableError(msg)
            life_days = self._config.enrolment.device_days
            (certificate,) = self._signer.ask(CertifyDevice(held.csr, held.device, life_days))
            parsed = x509.load_pem_x509_certificate(certificate.encode())
            signed_by = next((each for each in self.authorities() if _signed(parsed, each)), None)
            if signed_by is None:
                msg = "the authority was replaced just now; try again in some seconds"
                raise UnavailableError(msg)
            held = self.register.issue(
                held.key,
                certificate,
                str(parsed.serial_number),
                fingerprint(signed_by),
                parsed.not_valid_after_utc.timestamp(),
            )
        return self._as_certified(held)

    def _as_certified(self, held: Credential) -> Certified:
        authorities = self.authorities()
        life_days = self._config.enrolment.device_days
        due_s = held.expires_s - (1 - RENEWED_AFTER) * life_days * DAY_S
        replaced = held.authority != fingerprint(authorities[-1])
        if replaced or (signed_ahead(held.expires_s, life_days, self._clock.now_s()) and not self._distrust()):
            due_s = 0.0  # renew at once
        return Certified(held.device, held.certificate, held.expires_s, due_s, authorities)


def proven_serial(csr: str, certificate: str, proof: str) -> str | None:
    """The serial number of a certificate whose key signed a request; None if it did not.

    Raises:
        RemoteProtocolError: it is no certificate of a P-256 key.
    """
    msg = "expected a certificate of a P-256 key in PEM"
    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode())
        key = parsed.public_key()
        serial = str(parsed.serial_number)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise RemoteProtocolError(msg, code="certificate") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise RemoteProtocolError(msg, code="certificate")
    try:
        key.verify(bytes.fromhex(proof), renewal_bytes(csr), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError):
        return None
    return serial


def _signed(certificate: x509.Certificate, authority: str) -> bool:
    return certificate.issuer == x509.load_pem_x509_certificate(authority.encode()).subject
