"""What a device holds once it is enrolled: a key with its certificate, and where it belongs. In ``data_dir/identity``.

``credential.pem`` is the key and the certificate in one file, so that they change together; ``identity.json`` is
everything else, is written last, and so says that the device is enrolled. ``next.pem`` is a key that has no certificate
yet: it outlives a power cut, so that asking again is asking for the same.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from host.files import private_folder, replace_file
from wire.errors import ConfigError, RemoteProtocolError
from wire.identifiers import DeviceId, Population, device_id, population

FOLDER = "identity"
"""In ``data_dir``."""
CREDENTIAL, IDENTITY, NEXT_KEY = "credential.pem", "identity.json", "next.pem"


class EnrolledIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Where an enrolled device belongs; times are wall-clock seconds.

    Attributes:
        device: its name.
        population: its fleet.
        coordinator_url: where it fetches, and renews.
        broker_host: where it reports.
        broker_port: TCP port.
        authorities: certificates that it trusts, PEM.
        expires_s: when its own certificate ends.
        renew_s: when to ask for the next one.
        coordinator_key: public key that signs orders, in hex.
        recovery_key: public key that may name another one; empty if the coordinator has none.
    """

    device: str
    population: str
    coordinator_url: str
    broker_host: str
    broker_port: int
    authorities: list[str]
    expires_s: float
    renew_s: float
    coordinator_key: str
    recovery_key: str = ""

    @property
    def name(self) -> DeviceId:
        """Checked."""
        return device_id(self.device)

    @property
    def fleet(self) -> Population:
        """Checked."""
        return population(self.population)


def held_identity(data_dir: Path) -> EnrolledIdentity | None:
    """The identity of a device; None before it is enrolled.

    Raises:
        ConfigError: there is one, and it cannot be used.
    """
    path = data_dir / FOLDER / IDENTITY
    try:
        found = msgspec.json.decode(path.read_bytes(), type=EnrolledIdentity)
        device_id(found.device), population(found.population)
    except (FileNotFoundError, NotADirectoryError):
        return None  # the code that makes the folder says what is wrong with it
    except (OSError, msgspec.MsgspecError, RemoteProtocolError) as error:
        msg = f"{path}: expected what 'nightjar-agent enrol' wrote, got: {error}; enrol again with a new claim"
        raise ConfigError(msg) from error
    return found


def keep(data_dir: Path, identity: EnrolledIdentity, key_and_certificate: bytes | None) -> None:
    """Keep what was given to us; a key and certificate of None stay as they are."""
    folder = data_dir / FOLDER
    private_folder(folder)
    if key_and_certificate is not None:
        replace_file(folder / CREDENTIAL, key_and_certificate)
    replace_file(folder / IDENTITY, msgspec.json.encode(identity) + b"\n")
    if key_and_certificate is not None:
        (folder / NEXT_KEY).unlink(missing_ok=True)


def tls_context(data_dir: Path, identity: EnrolledIdentity) -> ssl.SSLContext:
    """Trusts servers of our authorities, under whatever name, and shows our certificate.

    An authority of a coordinator certifies no servers but its own, and devices for clients only; and a household's
    addresses change. Who asks the coordinator looks for :data:`wire.enrolment.COORDINATOR_NAME` in its certificate.

    Raises:
        ConfigError: key or certificate cannot be used.
    """
    context = trusting(identity.authorities)
    load_credential(context, data_dir)
    return context


def trusting(authorities: list[str]) -> ssl.SSLContext:
    """Trusts servers of these authorities.

    Raises:
        ConfigError: they are no certificates.
    """
    try:
        context = ssl.create_default_context(cadata="".join(authorities))
    except ssl.SSLError as error:
        msg = f"expected certificates of authorities, got something else: {error}"
        raise ConfigError(msg) from error
    context.check_hostname = False
    return context


def load_credential(context: ssl.SSLContext, data_dir: Path) -> None:
    """Show our newest certificate from the next connection on.

    Raises:
        ConfigError: key or certificate cannot be used.
    """
    path = data_dir / FOLDER / CREDENTIAL
    try:
        context.load_cert_chain(path)
    except OSError as error:
        msg = f"{path}: expected our key and certificate, got: {error}; enrol again with a new claim"
        raise ConfigError(msg) from error


def host_of(url: str) -> str:
    """The host in a URL.

    >>> host_of("https://pi.local:8443")
    'pi.local'
    """
    return urlsplit(url).hostname or ""
