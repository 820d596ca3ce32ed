"""The identity of an enrolled device: its key, its certificate and its settings, stored in ``data_dir/identity``.

``credential.pem`` holds the key and the certificate in one file, so that they change together. ``identity.json`` holds
everything else; it is written last, so its presence means that the device is enrolled. ``next.pem`` is a key without a
certificate yet: it survives a power cut, so that a repeated request is the same request.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from nightjar.host.files import private_folder, replace_file
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from nightjar.wire.identifiers import device_id, population

FOLDER = "identity"
"""Name of the identity folder in ``data_dir``."""
CREDENTIAL, IDENTITY, NEXT_KEY = "credential.pem", "identity.json", "next.pem"


class EnrolledIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Names, addresses and keys of an enrolled device; times are wall-clock seconds.

    Attributes:
        authorities: CA certificates that the device trusts, in PEM.
        coordinator_key: public key that signs orders, in hex.
        recovery_key: public key that may sign a new coordinator key; empty if the coordinator has none.
    """

    device: str
    population: str
    coordinator_url: str
    broker_host: str
    broker_port: int
    broker_websocket: bool = False
    authorities: list[str]
    expires_s: float
    renew_s: float
    coordinator_key: str
    recovery_key: str = ""


def held_identity(data_dir: Path) -> EnrolledIdentity | None:
    """The identity of a device; None before it is enrolled.

    Raises:
        ConfigError: the identity cannot be used.
    """
    path = data_dir / FOLDER / IDENTITY
    try:
        identity = msgspec.json.decode(path.read_bytes(), type=EnrolledIdentity)
        device_id(identity.device), population(identity.population)
    except (FileNotFoundError, NotADirectoryError):
        return None  # a bad data folder is reported by the code that creates it
    except (OSError, msgspec.MsgspecError, RemoteProtocolError) as error:
        msg = f"{path}: expected what 'nightjar-agent enrol' wrote, got: {error}; enrol again with a new claim"
        raise ConfigError(msg) from error
    return identity


def keep(data_dir: Path, identity: EnrolledIdentity, key_and_certificate: bytes | None) -> None:
    """Store the identity; if ``key_and_certificate`` is None, the stored key and certificate stay as they are."""
    folder = data_dir / FOLDER
    private_folder(folder)
    if key_and_certificate is not None:
        replace_file(folder / CREDENTIAL, key_and_certificate)
    replace_file(folder / IDENTITY, msgspec.json.encode(identity) + b"\n")
    if key_and_certificate is not None:
        (folder / NEXT_KEY).unlink(missing_ok=True)


def tls_context(data_dir: Path, identity: EnrolledIdentity) -> ssl.SSLContext:
    """A TLS context that trusts servers of our authorities, whatever their host name, and presents our certificate.

    The host name is not checked because a household's addresses change, and because a coordinator's authority certifies
    only its own servers, and devices as clients only. HTTP clients of the coordinator check for
    :data:`nightjar.wire.enrolment.COORDINATOR_NAME` in its certificate instead.

    Raises:
        ConfigError: the key or the certificate cannot be used.
    """
    context = trusting(identity.authorities)
    load_credential(context, data_dir)
    return context


def enrolled_tls(data_dir: Path) -> ssl.SSLContext | None:
    """The TLS context of an enrolled device; None before it is enrolled.

    Raises:
        ConfigError: the identity, the key or the certificate cannot be used.
    """
    identity = held_identity(data_dir)
    return None if identity is None else tls_context(data_dir, identity)


def trusting(authorities: list[str]) -> ssl.SSLContext:
    """A TLS context that trusts servers of these authorities.

    Raises:
        ConfigError: the authorities are not certificates.
    """
    try:
        context = ssl.create_default_context(cadata="".join(authorities))
    except ssl.SSLError as error:
        msg = f"expected certificates of authorities, got something else: {error}"
        raise ConfigError(msg) from error
    context.check_hostname = False
    return context


def load_credential(context: ssl.SSLContext, data_dir: Path) -> None:
    """Present our newest certificate from the next connection on.

    Raises:
        ConfigError: the key or the certificate cannot be used.
    """
    path = data_dir / FOLDER / CREDENTIAL
    try:
        context.load_cert_chain(path)
    except OSError as error:
        msg = f"{path}: expected our key and certificate, got: {error}; enrol again with a new claim"
        raise ConfigError(msg) from error
