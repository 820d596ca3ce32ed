"""The folder ``tls``, which a broker reads, and beside it the folder ``server``, which no other program sees.

In ``tls``: ``broker.key`` and ``broker.pem`` (the broker's, which devices do not accept as the coordinator's),
``authorities.pem`` (trusted authorities), ``revoked.pem`` (revocation lists, signed by the authorities, for mosquitto),
``refused`` (serial numbers of refused certificates, for the embedded broker) and ``access`` (mosquitto's access list).
The last two need no signature: while the authority does not sign, ``access`` denies every topic to devices whose
revoked certificates are not in ``revoked.pem`` yet. In ``server``: ``server.key`` and ``server.pem``, the
coordinator's. Each file is replaced atomically; its readers are notified when it changed.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.tls.authority import new_request
from nightjar.coordinator.tls.authority_process import (
    AuthorityClient,
    CertifyServer,
    ListAuthorities,
    Revoke,
    own_command,
)
from nightjar.coordinator.tls.contexts import AUTHORITIES, FOLDER
from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.host.put_away import NO_FILE, NO_FOLDER, put_away
from nightjar.wire import topics
from nightjar.wire.enrolment import BROKER_NAME, COORDINATOR_NAME
from nightjar.wire.errors import ConfigError, UnavailableError, rewording
from nightjar.wire.identifiers import DeviceId

SERVER_FOLDER, AUTHORITY_FOLDER = "server", "authority"
"""Further folders in ``data_dir``."""
SERVER_KEY, SERVER, REVOKED = "server.key", "server.pem", "revoked.pem"
BROKER_KEY, BROKER = "broker.key", "broker.pem"
REFUSED, ACCESS = "refused", "access"

RENEWED_AFTER = 2 / 3
"""Share of a certificate's life after which it is renewed: a device that is away for a month can still reconnect."""
DAY_S = 86400.0
_WRITTEN_AGAIN = "'serve' writes it again at its start, and within seconds while it runs"
_MOST_BYTES, _MOST_REVOKED_BYTES = 2**18, 2**25
"""More than any file takes, and than the list of 64,000 certificates does: damage must not fill the memory."""
SERVER_DAYS = 365.0
"""Lifetime of the coordinator's and the broker's certificates."""
SERVICE_USER = "@coordinator"
"""User name of the coordinator at a broker that requires device certificates; no device can have it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Which files changed, so that servers must reload them."""

    server: bool  # the coordinator's or the broker's certificate
    authorities: bool  # the trusted authorities
    revoked: bool  # the revoked certificates

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return self.server or self.authorities or self.revoked


def signer_of(config: CoordinatorConfig) -> AuthorityClient:
    """Client of the coordinator's authority."""
    return AuthorityClient(config.enrolment.signer or own_command(config.data_dir / AUTHORITY_FOLDER))


def refresh(
    config: CoordinatorConfig, signer: AuthorityClient, shut_out: Iterable[str], now_s: float, distrust: str = ""
) -> Changes:
    """Bring the whole folder up to date; nothing is signed while ``distrust`` says why the clock is not trusted.

    Raises:
        UnavailableError: the disk or the authority does not work now.
        ConfigError: the clock is not trusted, and there is no certificate yet.
    """
    serials, folder = frozenset(shut_out), config.data_dir / FOLDER
    signed = [folder / AUTHORITIES, folder / REVOKED, *coordinator_pair(folder), *broker_pair(folder)]
    if distrust and not all(path.is_file() for path in signed):
        msg = f"the servers have no certificates yet, and none can be signed: {distrust}"
        raise ConfigError(msg)
    changes = Changes(server=False, authorities=False, revoked=False)
    if not distrust:
        changes = sign(config, signer, serials, now_s)
    refuse(config, serials, ())
    return changes


def refuse(config: CoordinatorConfig, shut_out: Iterable[str], denied: Iterable[DeviceId]) -> bool:
    """Write the files that need no signature (``refused`` and ``access``); whether anything changed.

    Args:
        config: the coordinator's settings.
        shut_out: serial numbers of certificates that must be refused.
        denied: devices that mosquitto must refuse by name.

    Raises:
        UnavailableError: the disk does not work now.
    """
    folder = config.data_dir / FOLDER
    username = config.broker.username if config.broker.kind is BrokerKind.EXTERNAL else SERVICE_USER
    access = access_list(username, config.population, config.shards, sorted(denied))
    with _disk(folder):
        refused = replace_file(folder / REFUSED, "".join(f"{serial}\n" for serial in sorted(shut_out)).encode())
        return replace_file(folder / ACCESS, access.encode()) or refused


def access_list(username: str, population: str, shards: int, denied: Iterable[str] = ()) -> str:
    """Mosquitto's access list: the coordinator may use all topics of its population, a device only its own.

    Topics are listed without wildcards, because mosquitto keeps a retained message on every topic that a device may
    publish to. A ``denied`` device may neither publish nor subscribe, whatever certificate it presents.
    """
    up = "\n".join(
        f"pattern write {topics.ROOT}/{population}/up/{shard}/%u/{kind}"
        for shard in range(shards)
        for kind in sorted(topics.UP_KINDS)
    )
    template = string.Template((resources.files("nightjar.coordinator.tls") / "mosquitto-access.conf").read_text())
    ours = template.substitute(username=username, population=population, up=up)
    return ours + "".join(f"\nuser {device}\ntopic deny #\n" for device in denied)


def sign(config: CoordinatorConfig, signer: AuthorityClient, shut_out: Iterable[str], now_s: float) -> Changes:
    """Write the files that the authority signs, where they are out of date; see :func:`refuse` for ``shut_out``.

    Raises:
        UnavailableError: the disk or the authority does not work now.
    """
    folder = config.data_dir / FOLDER
    with _disk(folder), _disk(folder.parent / SERVER_FOLDER):
        authorities = signer.ask(ListAuthorities())
        trust_changed = replace_file(folder / AUTHORITIES, "".join(authorities).encode())
        ours = [
            _server(pair, authorities[0], [*names_of(config), role], signer, now_s)
            for role, pair in ((COORDINATOR_NAME, coordinator_pair(folder)), (BROKER_NAME, broker_pair(folder)))
        ]
        return Changes(
            server=any(ours),
            authorities=trust_changed,
            revoked=_revoked(folder, frozenset(shut_out), len(authorities), signer, trust_changed=trust_changed),
        )


def coordinator_pair(folder: Path) -> tuple[Path, Path]:
    """The coordinator's certificate and key; ``folder`` is the folder ``tls`` beside them."""
    return folder.parent / SERVER_FOLDER / SERVER, folder.parent / SERVER_FOLDER / SERVER_KEY


def broker_pair(folder: Path) -> tuple[Path, Path]:
    """The broker's certificate and key."""
    return folder / BROKER, folder / BROKER_KEY


def names_of(config: CoordinatorConfig) -> list[str]:
    """Names and addresses in the coordinator's certificate."""
    ours = [] if config.host in {"0.0.0.0", "::"} else [config.host]  # noqa: S104 - compared only
    names = [*config.enrolment.names, *ours, socket.gethostname(), "localhost", "127.0.0.1"]
    return list(dict.fromkeys(names))


def url_for_devices(config: CoordinatorConfig) -> str:
    """The coordinator's URL for devices; its host is the first of :func:`names_of`."""
    name = names_of(config)[0]
    return f"https://{f'[{name}]' if ':' in name else name}:{config.port}"


def refused_serials(folder: Path) -> frozenset[str]:
    """Serial numbers of certificates that must be refused, decimal; empty before the file is first written.

    Raises:
        UnavailableError: the file is damaged.
    """
    path = folder / REFUSED
    with rewording(UnavailableError, f"cannot read {path}", _WRITTEN_AGAIN):
        try:
            serials = read_file(path, _MOST_REVOKED_BYTES).decode("ascii", "replace").split()
        except FileNotFoundError:
            return frozenset()
    if not all(serial.isdecimal() for serial in serials):
        msg = f"{path}: expected serial numbers of refused certificates, got something else; {_WRITTEN_AGAIN}"
        raise UnavailableError(msg)
    return frozenset(serials)


def revoked_serials(folder: Path) -> frozenset[str]:
    """Serial numbers that are in the revocation lists of all authorities, decimal."""
    return frozenset.intersection(*(_lists_in(folder / REVOKED) or [frozenset[str]()]))


def authorities_in(folder: Path) -> tuple[str, ...]:
    """Certificates of the folder's authorities, PEM; the one that signs server certificates first.

    Raises:
        UnavailableError: the file cannot be read.
    """
    with rewording(UnavailableError, f"cannot read {folder / AUTHORITIES}"):
        text = read_file(folder / AUTHORITIES, _MOST_BYTES).decode("ascii", "replace")
    return tuple(_documents(text, "-----END CERTIFICATE-----\n"))


def authority_names(folder: Path) -> frozenset[str]:
    """Common names of the folder's authorities; each authority's is unique."""
    certificates = x509.load_pem_x509_certificates(read_file(folder / AUTHORITIES, _MOST_BYTES))
    return frozenset(
        str(name.value)
        for each in certificates
        for name in each.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    )


def _server(pair: tuple[Path, Path], authority: str, names: list[str], signer: AuthorityClient, now_s: float) -> bool:
    path, key_path = pair
    if _serves(key_path, path, authority, names, now_s):
        return False
    key, csr = new_request()
    (certificate,) = signer.ask(CertifyServer(csr, names, SERVER_DAYS))
    replace_file(key_path, key.encode())
    replace_file(path, (certificate + authority).encode())  # the whole chain: clients see where it ends
    return True


def signed_ahead(ends_s: float, days: float, now_s: float) -> bool:
    """Whether a certificate that is signed for so many days lasts longer: by a clock that was ahead.

    >>> signed_ahead(91 * DAY_S, 90, 0.0), signed_ahead(90 * DAY_S, 90, 3600.0)
    (True, False)
    """
    return ends_s >= now_s + (days + 1) * DAY_S  # clocks differ by less than a day


def _serves(key_path: Path, path: Path, authority: str, names: list[str], now_s: float) -> bool:
    """Whether the existing server certificate can still be used."""
    try:
        chain = x509.load_pem_x509_certificates(read_file(path, _MOST_BYTES))
        key = serialization.load_pem_private_key(read_file(key_path, _MOST_BYTES), None)
        ours, issuer = chain[0], x509.load_pem_x509_certificate(authority.encode())
        held = ours.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return False
    ends_s = ours.not_valid_after_utc.timestamp()
    is_due = now_s >= ends_s - (1 - RENEWED_AFTER) * SERVER_DAYS * DAY_S
    fresh = not is_due and not signed_ahead(ends_s, SERVER_DAYS, now_s)
    ours_too = key.public_key() == ours.public_key()  # a power cut may have left the next certificate's key
    return ours_too and fresh and chain[1:] == [issuer] and [str(name.value) for name in held] == names


def _revoked(
    folder: Path, serials: frozenset[str], authorities: int, signer: AuthorityClient, *, trust_changed: bool
) -> bool:
    """Renew the revocation lists only if their content changed: each signing yields different bytes."""
    path = folder / REVOKED
    if not trust_changed and _lists_in(path) == [serials] * authorities:
        return False
    return replace_file(path, "".join(signer.ask(Revoke(sorted(serials, key=int)))).encode())


def _lists_in(path: Path) -> list[frozenset[str]]:
    """Serial numbers in each list of a file; none if it is damaged or gone, so that it is made again."""
    try:
        return _listed(read_file(path, _MOST_REVOKED_BYTES))
    except (OSError, ValueError):
        return []


@functools.lru_cache(maxsize=1)
def _listed(pem: bytes) -> list[frozenset[str]]:
    """Serial numbers in each list; cached, as they are read every few seconds and there may be 64,000."""
    lists = [x509.load_pem_x509_crl(each.encode()) for each in _documents(pem.decode(), "-----END X509 CRL-----\n")]
    return [frozenset(str(revoked.serial_number) for revoked in each) for each in lists]


def _documents(pem: str, end: str) -> list[str]:
    return [part + end for part in pem.split(end) if part.strip()]


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    with rewording(UnavailableError, f"the folder {folder} cannot be used"):
        _put_away_what_is_no_file(folder)
        private_folder(folder)
        yield


def _put_away_what_is_no_file(folder: Path) -> None:
    """All in these folders can be made again, and nothing else may lie in its place."""
    data_dir = folder.parent
    if not folder.is_dir():  # put_away leaves alone what is not there
        put_away(data_dir, [folder], NO_FOLDER)
    wrong = [path for path in folder.iterdir() if not path.is_file()] if folder.is_dir() else []
    put_away(data_dir, wrong, NO_FILE)
