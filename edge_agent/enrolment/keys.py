"""The device's own private key: made and stored here, never sent. Needs ``cryptography``."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from nightjar.edge_agent.enrolment.identity import FOLDER, NEXT_KEY
from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.host.put_away import NO_FILE, NO_FOLDER, put_away
from nightjar.wire.errors import ConfigError


def next_key(data_dir: Path) -> tuple[bytes, str]:
    """The key to be certified and its certificate request, both in PEM; reuses the key from before a power cut.

    Raises:
        ConfigError: the folder cannot be written.
    """
    path = data_dir / FOLDER / NEXT_KEY
    try:
        if not path.parent.is_dir():
            put_away(data_dir, [path.parent], NO_FOLDER)
        private_folder(path.parent)
        key = _read(path)
        if key is None:
            if (path.exists() or path.is_symlink()) and not path.is_file():
                put_away(data_dir, [path], NO_FILE)
            key = ec.generate_private_key(ec.SECP256R1())
            replace_file(path, _pem(key))
    except OSError as error:
        msg = f"the key cannot be kept in {path}: {error.strerror or error}"
        raise ConfigError(msg) from error
    # No subject: the coordinator decides the device's name.
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return _pem(key), request.public_bytes(serialization.Encoding.PEM).decode()


def signed_with(credential: bytes, data: bytes) -> str:
    """A signature by the key of a credential, in DER and hex.

    Raises:
        ConfigError: the credential has no such key.
    """
    try:
        key = serialization.load_pem_private_key(credential, None)
    except (ValueError, TypeError) as error:
        msg = f"expected our key and certificate, got: {error}; enrol again with a new claim"
        raise ConfigError(msg) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        msg = "expected a P-256 key; enrol again with a new claim"
        raise ConfigError(msg)
    return key.sign(data, ec.ECDSA(hashes.SHA256())).hex()


def forget_next_key(data_dir: Path) -> None:
    """Delete the key after a refusal, so that the next request uses a new one."""
    (data_dir / FOLDER / NEXT_KEY).unlink(missing_ok=True)


def _read(path: Path) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(read_file(path), None)
    except (OSError, ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
