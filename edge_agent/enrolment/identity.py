"""The identity of an enrolled device: its key, its certificate and its settings, stored in ``data_dir/identity``.

``credential.pem`` holds the key and the certificate in one file, so that they change together. ``identity.json`` holds
everything else; it is written last, so its presence means that the device is enrolled. ``copy`` holds both again, with
a checksum: a damaged page would otherwise end the device until somebody visits. ``next.pem`` is a key without a
certificate yet: it survives a power cut, so that a repeated request is the same request.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec

from nightjar.edge_agent.shell.kept_apart import DamagedFileError, sealed, unsealed
from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.host.put_away import NO_FILE, put_away
from nightjar.wire.errors import ConfigError, RemoteProtocolError, rewording
from nightjar.wire.identifiers import device_id, population

FOLDER = "identity"
"""Name of the identity folder in ``data_dir``."""
CREDENTIAL, IDENTITY, NEXT_KEY, COPY = "credential.pem", "identity.json", "next.pem", "copy"


class EnrolledIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Names, addresses and keys of an enrolled device; times are wall-clock seconds.

    Attributes:
        authorities: CA certificates that the device trusts, in PEM.
        coordinator_key: public key that signs orders, in hex.
        recovery_key: public key that may sign a new coordinator key; empty if the coordinator has none.
        owner_key: public key that signs programs, from the claim; empty if it brought none.
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
    owner_key: str = ""


class _Kept(msgspec.Struct, frozen=True):
    """The copy of an identity and its credential."""

    identity: EnrolledIdentity
    credential: str


def held_identity(data_dir: Path) -> EnrolledIdentity | None:
    """The identity of a device; None before it is enrolled. A damaged one is replaced by its copy.

    Raises:
        ConfigError: the identity and its copy cannot be used.
    """
    try:
        return _read_identity(data_dir)
    except ConfigError as error:
        if _restored(data_dir, (IDENTITY,), str(error)):
            return _read_identity(data_dir)
        raise
    except FileNotFoundError:
        if _restored(data_dir, (IDENTITY,), "it was gone"):
            return _read_identity(data_dir)
        return None
    except NotADirectoryError:
        return None  # a bad data folder is reported by the code that creates it


def _read_identity(data_dir: Path) -> EnrolledIdentity:
    path = data_dir / FOLDER / IDENTITY
    try:
        identity = msgspec.json.decode(read_file(path), type=EnrolledIdentity)
        device_id(identity.device), population(identity.population)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, msgspec.MsgspecError, RemoteProtocolError) as error:
        msg = f"{path}: expected what 'nightjar-agent enrol' wrote, got: {error}; {_remedy(error)}"
        raise ConfigError(msg) from error
    return identity


def _remedy(error: Exception) -> str:
    """What to do about an identity that cannot be used; one that only this user may not read needs no new claim."""
    if isinstance(error, PermissionError):
        return "run this as the agent's own user, or as root"
    return "enrol again with a new claim"


def keep(data_dir: Path, identity: EnrolledIdentity, key_and_certificate: bytes | None) -> None:
    """Store the identity; if ``key_and_certificate`` is None, the stored key and certificate stay as they are.

    The copy comes first: from then on it is what counts.
    """
    folder = data_dir / FOLDER
    private_folder(folder)
    credential = key_and_certificate
    if credential is None and (folder / CREDENTIAL).is_file():
        credential = (folder / CREDENTIAL).read_bytes()
    if credential is not None:
        _write_copy(data_dir, identity, credential)
    for name in (IDENTITY, CREDENTIAL):  # a folder, say, that is in its place
        if (folder / name).exists() and not (folder / name).is_file():
            put_away(data_dir, [folder / name], NO_FILE)
    if key_and_certificate is not None:
        replace_file(folder / CREDENTIAL, key_and_certificate)
    replace_file(folder / IDENTITY, _encoded(identity))
    if key_and_certificate is not None:
        (folder / NEXT_KEY).unlink(missing_ok=True)


def mend_identity(data_dir: Path) -> None:
    """Put a damaged identity away for its copy, or make the copy; for the agent's start.

    Only the copy has a checksum, so it counts; but for a certificate that an agent without copies has renewed since.
    """
    identity = held_identity(data_dir)
    folder, kept = data_dir / FOLDER, _copy(data_dir)
    if identity is None:
        return
    try:
        credential = read_file(folder / CREDENTIAL)
        _try_credential(folder / CREDENTIAL)
        sound = True
    except OSError:
        credential, sound = b"", False
    renewed = kept is not None and identity.expires_s > kept.identity.expires_s
    if kept is None or (sound and renewed and credential != kept.credential.encode()):
        if sound:
            _write_copy(data_dir, identity, credential)
        return
    wrong = [] if identity == kept.identity else [IDENTITY]
    wrong += [] if credential == kept.credential.encode() else [CREDENTIAL]
    if wrong:
        _restored(data_dir, wrong, "it is not what was written there")


def _restored(data_dir: Path, names: Sequence[str], why: str) -> bool:
    """Put damaged files of the identity away and write those of the copy; False if there is no sound copy."""
    kept = _copy(data_dir)
    if kept is None:
        return False
    folder = data_dir / FOLDER
    contents = {IDENTITY: _encoded(kept.identity), CREDENTIAL: kept.credential.encode()}
    with rewording(ConfigError, f"{folder}: it is damaged, and its copy cannot be put in its place"):
        for name in names:
            put_away(data_dir, [folder / name], why.rsplit(" got: ", 1)[-1])
            replace_file(folder / name, contents[name])
    return True


def _copy(data_dir: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(unsealed(read_file(data_dir / FOLDER / COPY)), type=_Kept)
    except (OSError, msgspec.MsgspecError, DamagedFileError):
        return None


def _write_copy(data_dir: Path, identity: EnrolledIdentity, credential: bytes) -> None:
    path = data_dir / FOLDER / COPY
    if path.exists() and not path.is_file():
        put_away(data_dir, [path], NO_FILE)
    replace_file(path, sealed(msgspec.json.encode(_Kept(identity, credential.decode()))))


def _encoded(identity: EnrolledIdentity) -> bytes:
    return msgspec.json.encode(identity) + b"\n"


def _try_credential(path: Path) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path)


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
    text = "".join(authorities)
    if not (text and text.isascii()):  # with none, Python trusts every authority that this machine does
        msg = f"expected certificates of authorities, got {'something else' if text else 'none'}"
        raise ConfigError(msg)
    try:
        context = ssl.create_default_context(cadata=text)
    except ssl.SSLError as error:
        msg = f"expected certificates of authorities, got something else: {error}"
        raise ConfigError(msg) from error
    context.check_hostname = False
    return context


def load_credential(context: ssl.SSLContext, data_dir: Path) -> None:
    """Present our newest certificate from the next connection on; a damaged one is replaced by its copy.

    Raises:
        ConfigError: the key or the certificate cannot be used.
    """
    path = data_dir / FOLDER / CREDENTIAL
    try:
        try:
            read_file(path)
            context.load_cert_chain(path)
        except OSError as error:
            if not _restored(data_dir, (CREDENTIAL,), str(error)):
                raise
            context.load_cert_chain(path)
    except OSError as error:
        msg = f"{path}: expected our key and certificate, got: {error}; {_remedy(error)}"
        raise ConfigError(msg) from error
