"""Certificates of a year: the product's authority, register, issuer and device files; only HTTPS is left out.

A device asks the issuer by a call. The checks that a TLS handshake would make are made here: the broker's of the
device's certificate, and the device's of the coordinator's, by its own clock.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography import x509

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.certificate_issuer import CertificateIssuer, Certified, new_claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.ports import Clock
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tls import authority_process
from nightjar.coordinator.tls.authority import Authority
from nightjar.coordinator.tls.authority_process import Answer, AuthorityClient, Question
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER, authority_names, coordinator_pair, refresh
from nightjar.edge_agent.enrolment.enrolling import has_ended
from nightjar.edge_agent.enrolment.identity import CREDENTIAL, EnrolledIdentity, held_identity, keep
from nightjar.edge_agent.enrolment.identity import FOLDER as IDENTITY_FOLDER
from nightjar.edge_agent.enrolment.keys import next_key, signed_with
from nightjar.wire.enrolment import renewal_bytes
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId

CLAIM_S = 3600.0
"""An operator's claim is used at once."""
ADDRESS = "192.0.2.1"
"""Of all devices, for the audit log."""
_ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


class AuthorityInProcess(AuthorityClient):
    """The authority's program, which answers in this process and by the virtual clock."""

    def __init__(self, folder: Path, now_s: Callable[[], float]) -> None:
        super().__init__(())
        self._folder, self._now_s = folder, now_s

    def _answer(self, question: Question) -> Answer | None:
        answers = io.BytesIO()
        authority_process.serve(io.BytesIO(msgspec.json.encode(question) + b"\n"), answers, self._folder, self._now_s)
        return _ANSWERS.decode(answers.getvalue())


class CertificateOffice:
    """The coordinator's side: claims, certificates, and whom the broker lets in."""

    def __init__(
        self,
        config: CoordinatorConfig,
        database: Callable[[], Database],
        clock: Clock,
        distrust: Callable[[], str] = str,
    ) -> None:
        self._config, self._database, self._clock, self._distrust = config, database, clock, distrust
        self._folder = config.data_dir / AUTHORITY_FOLDER
        self._signer = AuthorityInProcess(self._folder, clock.now_s)
        self._claims = 0
        self._server: tuple[int, float, float] = (0, 0.0, 0.0)
        self.refresh()

    @property
    def now_s(self) -> float:
        """The coordinator's time."""
        return self._clock.now_s()

    @property
    def register(self) -> Register:
        """The register in the database that is open now."""
        return Register(self._database())

    @property
    def issuer(self) -> CertificateIssuer:
        """The certificate issuer."""
        return CertificateIssuer(self._config, self.register, self._signer, self._clock, "", distrust=self._distrust)

    def refresh(self) -> None:
        """Bring the servers' files up to date, as the service does at its start and every few seconds."""
        now_s = self._clock.now_s()
        refresh(self._config, self._signer, self.register.shut_out(now_s), now_s, self._distrust())

    def enrol(self, device: DeviceId, csr: str) -> Certified:
        """Let a device in with a claim of its own."""
        self._claims += 1
        secret, claim = new_claim(
            f"claim-{self._claims}", self._clock.now_s(), CLAIM_S, device=device, prefix="", uses=1, approval=False
        )
        self.register.add_claim(claim, "operator")
        made = self.issuer.enrol(secret, csr, ADDRESS)
        if not isinstance(made, Certified):
            msg = f"the claim of {device} was refused: {made}"
            raise UnavailableError(msg)  # an operator tries again
        return made

    def seen(self, serial: str) -> DeviceId | None:
        """The device that a certificate lets in now."""
        return self.register.seen(serial, self._clock.now_s())

    def authorities(self) -> tuple[str, ...]:
        """Certificates of the authorities, PEM; during a renewal the former one first."""
        return self.issuer.authorities()

    def knows(self, issuer: str) -> bool:
        """Whether the broker trusts an authority of this common name."""
        return issuer in authority_names(self._config.data_dir / FOLDER)

    def revoke(self, device: DeviceId) -> None:
        """Revoke a device, and have the servers told."""
        self.register.revoke(device, "operator", self._clock.now_s())
        self.refresh()

    def rotate(self) -> None:
        """Begin the renewal of the authority."""
        Authority(self._folder).rotate()
        self.refresh()

    def retire(self) -> None:
        """End the renewal of the authority: the former one is no longer valid."""
        Authority(self._folder).retire()
        self.refresh()

    def server_validity(self) -> tuple[float, float]:
        """Span in which devices accept the coordinator's certificate."""
        path, _ = coordinator_pair(self._config.data_dir / FOLDER)
        changed = path.stat().st_mtime_ns
        if changed != self._server[0]:
            found = x509.load_pem_x509_certificate(path.read_bytes())
            span = (found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp())
            self._server = (changed, *span)
        return self._server[1:]


class DeviceCertificate:
    """The device's side: its identity files, which survive everything but a new card."""

    def __init__(self, folder: Path, office: CertificateOffice) -> None:
        self._folder, self._office = folder, office
        self._serial = self._issuer = ""
        self._held: EnrolledIdentity | None = None
        self.renewed_late = 0  # certificates that had ended
        folder.mkdir(parents=True, exist_ok=True)

    def enrol(self, device: DeviceId) -> None:
        """Enrol with a new claim."""
        key, csr = next_key(self._folder)
        self._keep(device, self._office.enrol(device, csr), key)

    def renew_if_due(self, now_s: float | None) -> None:
        """Renew as the product does: ask what holds, and then for a new certificate if it is time.

        ``now_s`` is None while the device does not trust its clock.

        Raises:
            UnavailableError: the coordinator's database does not work now.
        """
        held = self.held()
        if held is None or self._office.authorities()[0] not in held.authorities:
            return  # it trusts no authority of the coordinator's certificate
        device = DeviceId(held.device)
        if self._office.now_s > held.expires_s:  # a handshake with it fails
            if has_ended(held, now_s):
                self._renew_expired(device)
            return
        told = self._office.issuer.standing(self.serial)
        if told is None:
            return  # revoked
        self._keep(device, told, None)
        if now_s is None or now_s < told.renew_s:
            return
        key, csr = next_key(self._folder)
        made = self._office.issuer.renew(device, csr, ADDRESS)
        if isinstance(made, Certified):
            self._keep(device, made, key)
            self._office.seen(self.serial)

    def _renew_expired(self, device: DeviceId) -> None:
        """Ask for the next certificate with a proof that the device has the key of the one that ended."""
        credential = (self._folder / IDENTITY_FOLDER / CREDENTIAL).read_bytes()
        certificate = credential[credential.index(b"-----BEGIN CERTIFICATE") :].decode()
        key, csr = next_key(self._folder)
        proof = signed_with(credential, renewal_bytes(csr))
        made = self._office.issuer.renew_expired(csr, certificate, proof, ADDRESS)
        if isinstance(made, Certified):
            self._keep(device, made, key)
            self._office.seen(self.serial)
            self.renewed_late += 1

    def held(self) -> EnrolledIdentity | None:
        """The identity that the device has."""
        if self._held is None:
            self._held = held_identity(self._folder)
        return self._held

    def state(self, now_s: float) -> str:
        """The certificate in words, for a person."""
        held = self.held()
        if held is None:
            return "no identity"
        return f"its certificate ends in {(held.expires_s - now_s) / 86_400:.0f} days"

    @property
    def serial(self) -> str:
        """Serial number of the certificate that the device holds, decimal."""
        if not self._serial:
            pem = (self._folder / IDENTITY_FOLDER / CREDENTIAL).read_bytes()
            found = x509.load_pem_x509_certificate(pem)
            self._serial, self._issuer = str(found.serial_number), str(_common_name(found.issuer))
        return self._serial

    def _issued_by(self) -> str:
        return self._issuer if self.serial else ""

    def admitted(self, wall_s: float, now_s: float) -> bool:
        """Whether a handshake succeeds: ``wall_s`` is the device's clock, ``now_s`` the broker's."""
        held = self.held()
        begins_s, ends_s = self._office.server_validity()
        if held is None or not begins_s <= wall_s <= ends_s or now_s > held.expires_s:
            return False
        if self._office.authorities()[0] not in held.authorities or not self._office.knows(self._issued_by()):
            return False
        return self._office.seen(self.serial) == held.device

    def _keep(self, device: DeviceId, made: Certified, key: bytes | None) -> None:
        identity = EnrolledIdentity(
            device=device,
            population="year",
            coordinator_url="https://coordinator:8080",
            broker_host="coordinator",
            broker_port=1883,
            authorities=list(made.authorities),
            expires_s=made.expires_s,
            renew_s=made.renew_s,
            coordinator_key="",
        )
        if identity == self.held() and key is None:
            return
        keep(self._folder, identity, None if key is None else key + made.certificate.encode())
        self._serial, self._held = "", None


def _common_name(name: x509.Name) -> str | bytes:
    return name.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
