"""The certificate authority: a P-256 key in its own folder, which signs device and server certificates and CRLs.

Device certificates are valid only for clients, and server certificates only for servers (extended key usage), so no
device can pass for the coordinator. Only the public key is taken from a device's request: the authority sets the name,
lifetime and extensions. During a rotation (``rotate``, then ``retire``) there are two authorities: the current one
signs device certificates, and the former one still signs server certificates, because devices in the field trust only
that one.

This is the only module that reads the authority's key, and it runs in a process of its own
(:mod:`nightjar.coordinator.tls.authority_process`). Source: RFC 5280; CSR: RFC 2986.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
import stat
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError, rewording

CURRENT, FORMER = "current.pem", "former.pem"
"""Files; each holds a key and its certificate."""
BEGINS = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""From when all that is signed is valid: a board without a real-time clock starts then, or with the time of its last
shutdown, and a coordinator whose clock was ahead at its first start signs nothing that is not valid yet."""
ENDS = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
"""When an authority and its revocation lists end: never (RFC 5280, 4.1.2.5). The clock of its first start may have been
far behind, and a card may lie in a drawer for years."""
MOST_CSR_BYTES = 4096

_DAY_S = 86400.0
_MOST_BYTES = 2**16
_SERVED = Path("tls", "authorities.pem")
"""Where :mod:`nightjar.coordinator.tls.contexts` has it, whose imports would delay the start of this process."""
_RESTORE = "restore it from the backup that was made --with-keys; devices know no other"


@dataclass(frozen=True, slots=True)
class _Signer:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


class Authority:
    """The authority in a folder to which only its owner has access; created at the first use.

    None is created beside the certificate of one: devices would not know it.

    Raises:
        ConfigError: other users can read the key, the file holds no valid key, or it is gone.
        UnavailableError: the folder cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _disk(folder):
            private_folder(folder)
            if not (folder / CURRENT).exists():
                _refuse_another(folder)
                replace_file(folder / CURRENT, _new())
            self._current = _read(folder / CURRENT)
            former = _read(folder / FORMER) if (folder / FORMER).exists() else None
        # A power cut in the middle of a rotation leaves the same authority in both files.
        self._former = former if former and former.certificate != self._current.certificate else None

    @property
    def rotating(self) -> bool:
        """Whether a rotation is in progress, so that there are two authorities."""
        return self._former is not None

    def certificates(self) -> list[str]:
        """Certificates of all valid authorities, PEM; the one that signs server certificates first."""
        return [_pem(signer.certificate) for signer in self._signers()]

    def certify_device(self, csr: str, device: str, days: float, now_s: float) -> str:
        """Issue a certificate, as PEM, for the key in a request (PKCS #10, PEM); the device becomes the common name.

        Raises:
            RemoteProtocolError: the request is malformed, has no P-256 key, or is not signed with its key.
        """
        return _pem(self._certify(self._current, requested_key(csr), device, [], days, now_s))

    def certify_server(self, csr: str, names: Sequence[str], days: float, now_s: float) -> str:
        """Issue a certificate for the coordinator or its own broker, as PEM; its first name becomes the common name.

        Raises:
            RemoteProtocolError: the request is malformed, has no P-256 key, or is not signed with its key.
        """
        return _pem(self._certify(self._former or self._current, requested_key(csr), names[0], names, days, now_s))

    def revocations(self, serials: Sequence[int]) -> list[str]:
        """Revocation lists (CRLs), PEM; one signed by each authority.

        They never expire: a broker that gets no new list must not lock all devices out.
        """
        return [_pem(_revocations(signer, serials)) for signer in self._signers()]

    def rotate(self) -> None:
        """Create a new key; the old authority stays as the former one until :meth:`retire`.

        Raises:
            ConfigError: the last rotation has not finished, so there is still a former authority.
        """
        if self._former is not None:
            msg = "the last rotation is not finished: 'authority retire' ends it when every device has come along"
            raise ConfigError(msg)
        with _disk(self._folder):
            # Write the former authority first, so that a power cut in between loses nothing.
            replace_file(self._folder / FORMER, _bytes(self._current))
            replace_file(self._folder / CURRENT, _new())
            self._former, self._current = self._current, _read(self._folder / CURRENT)

    def retire(self) -> None:
        """Delete the former authority: its certificates are invalid from now on.

        Raises:
            ConfigError: there is no former authority.
        """
        if self._former is None:
            msg = "there is no former authority; 'authority rotate' begins a rotation"
            raise ConfigError(msg)
        with _disk(self._folder):
            (self._folder / FORMER).unlink()
        self._former = None

    def _signers(self) -> list[_Signer]:
        return [self._current] if self._former is None else [self._former, self._current]

    @staticmethod
    def _certify(
        signer: _Signer, key: ec.EllipticCurvePublicKey, name: str, names: Sequence[str], days: float, now_s: float
    ) -> x509.Certificate:
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _certificate(name, datetime.datetime.fromtimestamp(int(now_s + days * _DAY_S), tz=datetime.UTC))
            .issuer_name(signer.certificate.subject)
            .public_key(key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .add_extension(_authority_identifier(signer), critical=False)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False
            )
        return builder.sign(signer.key, hashes.SHA256())


def requested_key(csr: str) -> ec.EllipticCurvePublicKey:
    """The public key of a certificate request.

    Raises:
        RemoteProtocolError: the request is malformed, has no P-256 key, or is not signed with its key.
    """
    msg = "expected a PKCS #10 request in PEM, with a P-256 key and signed with it"
    if len(csr) > MOST_CSR_BYTES:
        raise RemoteProtocolError(msg, code="csr")
    try:
        request = x509.load_pem_x509_csr(csr.encode())
        key = request.public_key()
        signed = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise RemoteProtocolError(msg, code="csr") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1) or not signed:
        raise RemoteProtocolError(msg, code="csr")
    return key


def key_fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Hash of a public key: identifies a credential before and after its certificate is issued."""
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


def fingerprint(certificate: str) -> str:
    """sha256 of a certificate's DER encoding, as hex."""
    return x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256()).hex()


def new_request() -> tuple[str, str]:
    """A fresh key and its certificate request, both PEM; for the coordinator's own servers."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return _key_pem(key).decode(), _pem(request)


def _refuse_another(folder: Path) -> None:
    """Refuse to create an authority beside the files of one whose key is gone."""
    served = folder.parent / _SERVED
    if served.exists():
        msg = (
            f"{folder / CURRENT} is missing, and devices know its certificate: {_RESTORE}. To begin with another "
            f"one, for which each device needs a new claim, move {served.parent} away"
        )
        raise ConfigError(msg)


def _new() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"Nightjar authority {os.urandom(4).hex()}"  # chains are built by name, so no two authorities may share one
    certificate = (
        _certificate(name, ENDS)
        .issuer_name(_name(name))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _bytes(_Signer(key, certificate.sign(key, hashes.SHA256())))


def _certificate(name: str, ends: datetime.datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGINS)
        .not_valid_after(ends)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _revocations(signer: _Signer, serials: Sequence[int]) -> x509.CertificateRevocationList:
    revoked = x509.RevokedCertificateBuilder().revocation_date(BEGINS)
    builder = x509.CertificateRevocationListBuilder(
        issuer_name=signer.certificate.subject,
        last_update=BEGINS,
        next_update=ENDS,
        # Pass all at once: add_revoked_certificate copies the whole list each time.
        revoked_certificates=[revoked.serial_number(serial).build() for serial in serials],
    )
    return builder.add_extension(_authority_identifier(signer), critical=False).sign(signer.key, hashes.SHA256())


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_identifier(signer: _Signer) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(signed: x509.Certificate | x509.CertificateSigningRequest | x509.CertificateRevocationList) -> str:
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _bytes(signer: _Signer) -> bytes:
    return _key_pem(signer.key) + _pem(signer.certificate).encode()


def _read(path: Path) -> _Signer:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        msg = f"{path} is the authority's key, and others may read it ({mode:04o}); chmod 600 it, and rotate the key"
        raise ConfigError(msg)
    data = read_file(path, _MOST_BYTES)
    try:
        key = serialization.load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"{path}: expected a key and its certificate in PEM, got: {error}; {_RESTORE}"
        raise ConfigError(msg) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        msg = f"{path}: expected a P-256 key and the certificate of that key, got others; {_RESTORE}"
        raise ConfigError(msg)
    return _Signer(key, certificate)


def _disk(folder: Path) -> AbstractContextManager[None]:
    return rewording(UnavailableError, f"the authority's folder {folder} cannot be used")
