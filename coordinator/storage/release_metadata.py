"""The coordinator's half of the releases' metadata (The Update Framework): publishes it, and signs what is online.

Root and targets come from the owner (:mod:`nightjar.firmware_scripts.release_keys`) and are published only if a device
that trusts the first root would accept them. They are artifacts that the database names, so that all hosts serve them.
``data_dir/releases`` holds ``metadata/`` as devices fetch it, filled from there, and ``online.key``, which signs three
roles: the order who takes which release (a delegated role), the snapshot and the timestamp. Their version is the time
in seconds, so that a coordinator that was restored from a backup needs no memory to go forward; it is that of the
minute, so that a device which asks one of several hosts after the other sees no version go back.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import DownloadError, DownloadHTTPError, RepositoryError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.ngclient import FetcherInterface, Updater

from nightjar.coordinator.storage.blobs import FileBlobs, disk
from nightjar.coordinator.versions.releases import Release
from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.host.put_away import NO_FILE, NO_FOLDER, put_away
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.release_version import numbers
from nightjar.wire.releases import ORDER, ROLLOUT, BundleFacts, ReleaseOrder

FOLDER = "releases"
"""Subfolder of a data folder, and of a backup with keys."""
ONLINE_KEY = "online.key"
LIFETIME = timedelta(days=2)
"""How long online metadata is valid: the longest that somebody between can hide a new release."""
SIGNED_AGAIN_S = 60.0
MOST_METADATA_BYTES = 2**23
"""Longest metadata that is served; a device takes none that is longer than 5 MB."""
_MOST_BYTES = 2**16
KEPT = 5
"""Online versions kept, for devices that are just fetching one."""
_OFFLINE_ROLES, _ONLINE_ROLES = (Root.type, Targets.type), (ROLLOUT, Snapshot.type)


@dataclass(frozen=True, slots=True)
class PublishedReleases:
    """What the database has of the metadata."""

    files: Mapping[str, str]  # name of each file that the owner signed -> sha256 of the artifact
    order: ReleaseOrder  # who takes which release


class ReleaseMetadata:
    """The metadata of releases, as this host serves it; the artifacts keep what the owner signed. Thread-safe."""

    def __init__(self, data_dir: Path, artifacts: FileBlobs) -> None:
        self._folder = data_dir / FOLDER
        self._artifacts = artifacts
        self._lock = threading.Lock()
        self._signed: tuple[PublishedReleases, int] | None = None

    def file(
        self, name: str, published: Callable[[], PublishedReleases], now_s: float, distrust: str = ""
    ) -> Path | None:
        """A metadata file as a device asks for it, fetched or signed anew when it is due or something changed.

        While ``distrust`` says why the clock is not trusted, nothing is signed: devices get what was signed before.

        Raises:
            UnavailableError: the clock is not trusted, and there is nothing yet; or this host lacks the online key, or
                the disk or the store of artifacts does not work.
        """
        path = self._folder / "metadata" / name
        due = name == f"{Timestamp.type}.json" or not path.is_file()
        if due and distrust:
            if not path.is_file() and published().files:
                msg = f"no release is signed for now: {distrust}"
                raise UnavailableError(msg)
        elif due:
            self._refresh(published(), _minute(now_s))
        return path if path.parent == self._folder / "metadata" and path.is_file() else None

    def _refresh(self, now: PublishedReleases, minute: int) -> None:
        with self._lock:
            if not now.files or (now, minute) == self._signed:
                return
            with disk(self._folder):
                private_folder(self._folder)
                metadata = self._folder / "metadata"
                put_away(self._folder.parent, [metadata] if not metadata.is_dir() else [], NO_FOLDER)
                private_folder(metadata)
                put_away(self._folder.parent, [each for each in metadata.iterdir() if not each.is_file()], NO_FILE)
                for name, sha256 in now.files.items():
                    replace_file(metadata / name, self._artifacts.get(sha256))
                _sign(self._folder, _accepted_signer(self._folder), now.order, minute)
            self._signed = now, minute

    def take_in(
        self, source: Path, key: Path | None, bundles: Sequence[Path], files: Mapping[str, str], now_s: float
    ) -> tuple[tuple[Release, ...], dict[str, str]]:
        """Keep the owner's metadata and bundles, if a device would accept all of it.

        Args:
            source: the owner's folder of root and targets.
            key: the online key; None keeps the one that is here.
            bundles: bundles that targets lists, under their own names.
            files: :attr:`PublishedReleases.files` so far.
            now_s: the time.

        Returns:
            The releases, and the files to publish; devices see them once they are in the database.

        Raises:
            ConfigError: there is no key or no metadata, or a device would refuse something.
            UnavailableError: the store of artifacts does not work.
            OSError: a file cannot be read or written.
        """
        key = key or self._folder / ONLINE_KEY
        if not key.is_file():
            msg = f"there is no online key {key}: --online-key names it, the first time tuf/keys/online-1a.key"
            raise ConfigError(msg)
        if not _offline_files(source):
            msg = f"{source}: expected metadata such as 1.root.json, as 'nightjar-firmware keys init' makes it"
            raise ConfigError(msg)
        with tempfile.TemporaryDirectory(prefix="nightjar-release-") as folder:
            staged = Path(folder)  # of public files only: a kill leaves it for the system to clear
            (staged / "metadata").mkdir()
            for path in _offline_files(source):
                shutil.copyfile(path, staged / "metadata" / path.name)
            for name, sha256 in files.items():  # what was published never changes
                (staged / "metadata" / name).write_bytes(self._artifacts.get(sha256))
            try:
                _sign(staged, _signer(key), ReleaseOrder(), _minute(now_s))
                found = _as_a_device(staged, bundles)
            except (RepositoryError, DownloadError, ValueError) as error:
                msg = f"devices would refuse this: {error}; see 'nightjar-firmware keys' and docs/releases.md"
                raise ConfigError(msg) from error
            releases = tuple(_release(path, target, self._artifacts, now_s) for path, target in found)
            kept = {path.name: self._artifacts.put(path.read_bytes()) for path in _offline_files(staged / "metadata")}
            private_folder(self._folder)
            replace_file(self._folder / ONLINE_KEY, read_file(key, _MOST_BYTES))
        return releases, kept


def expiries(files: Mapping[str, str], artifacts: FileBlobs) -> dict[str, float]:
    """When the newest root and targets expire, in seconds since 1970; empty before the first release.

    Raises:
        IntegrityError: an artifact is missing or damaged.
        UnavailableError: the store of artifacts does not work.
    """
    found = {}
    for role in _OFFLINE_ROLES:
        newest = max((name for name in files if name.endswith(f".{role}.json")), key=_number, default=None)
        if newest is not None:
            found[role] = Metadata.from_bytes(artifacts.get(files[newest])).signed.expires.timestamp()
    return found


def _accepted_signer(folder: Path) -> CryptoSigner:
    """The online key, if devices accept it: with several hosts, each needs the key that root names."""
    remedy = f"copy {FOLDER}/{ONLINE_KEY} from the host where 'release add' got it"
    root = folder / "metadata" / f"{_newest(folder / 'metadata', Root.type)}.{Root.type}.json"
    if not (folder / ONLINE_KEY).is_file():
        msg = f"there is no {folder / ONLINE_KEY}, so devices find no releases here: {remedy}"
        raise UnavailableError(msg)
    wanted = Metadata[Root].from_file(str(root)).signed.roles[Timestamp.type].keyids
    signer = _signer(folder / ONLINE_KEY)
    if signer.public_key.keyid not in wanted:
        msg = f"{folder / ONLINE_KEY} is not the online key of {root.name}, so devices find no releases here: {remedy}"
        raise UnavailableError(msg)
    return signer


def _signer(path: Path) -> CryptoSigner:
    try:
        return CryptoSigner(load_pem_private_key(read_file(path, _MOST_BYTES), None))
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"{path}: expected the online key in PEM without a password, got: {error}; restore it from a backup"
        raise UnavailableError(msg) from error


def _sign(folder: Path, signer: CryptoSigner, order: ReleaseOrder, minute: int) -> None:
    """Sign and write rollout, snapshot and last the timestamp, which makes them count."""
    metadata = folder / "metadata"
    version = max(minute, _newest(metadata, Snapshot.type) + 1)
    expires = datetime.fromtimestamp(minute, UTC) + LIFETIME
    custom = {"custom": msgspec.to_builtins(order)}
    target = TargetFile(0, {"sha256": hashlib.sha256().hexdigest()}, ORDER, custom)
    listed = {
        f"{Targets.type}.json": MetaFile(_newest(metadata, Targets.type)),
        f"{ROLLOUT}.json": MetaFile(version),
    }
    rollout = Metadata(Targets(version, expires=expires, targets={ORDER: target}))
    snapshot = Metadata(Snapshot(version, expires=expires, meta=listed))
    timestamp = Metadata(Timestamp(version, expires=expires, snapshot_meta=MetaFile(version)))
    for each in (rollout, snapshot, timestamp):
        each.sign(signer)
    replace_file(metadata / f"{version}.{ROLLOUT}.json", rollout.to_bytes())
    replace_file(metadata / f"{version}.{Snapshot.type}.json", snapshot.to_bytes())
    replace_file(metadata / f"{Timestamp.type}.json", timestamp.to_bytes())
    for role in _ONLINE_ROLES:
        for number in _versions(metadata, role)[:-KEPT]:
            (metadata / f"{number}.{role}.json").unlink(missing_ok=True)


def _minute(now_s: float) -> int:
    """When the minute began that all hosts sign in, in seconds since 1970."""
    return int(now_s // SIGNED_AGAIN_S * SIGNED_AGAIN_S)


def _as_a_device(staged: Path, bundles: Sequence[Path]) -> list[tuple[Path, TargetFile]]:
    """Check everything as a device that trusts the first root does; returns the bundles' targets."""
    first = min(_versions(staged / "metadata", Root.type), default=0)
    root = staged / "metadata" / f"{first}.root.json"
    updater = Updater(
        str(staged / "device"), "file:", fetcher=_Folder(staged / "metadata"), bootstrap=root.read_bytes()
    )
    updater.refresh()
    found = []
    for path in bundles:
        target = updater.get_targetinfo(path.name)
        if target is None:
            msg = f"targets does not list {path.name}: 'nightjar-firmware keys add' lists it"
            raise ConfigError(msg)
        with path.open("rb") as file:
            target.verify_length_and_hashes(file)
        found.append((path, target))
    return found


class _Folder(FetcherInterface):
    """Fetches metadata from a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = self._folder / url.rpartition("/")[2]
        if not path.is_file():
            msg = f"there is no {path.name}"
            raise DownloadHTTPError(msg, 404)
        return iter([path.read_bytes()])


def _release(path: Path, target: TargetFile, artifacts: FileBlobs, now_s: float) -> Release:
    version = path.name.split("-")[1]
    numbers(version)
    facts = msgspec.convert(target.custom, BundleFacts)
    sha256 = artifacts.put(path.read_bytes())
    return Release(version=version, bundles={path.name: sha256}, security=facts.security, added_s=now_s)


def _offline_files(folder: Path) -> list[Path]:
    return [path for role in _OFFLINE_ROLES for path in folder.glob(f"[0-9]*.{role}.json")]


def _versions(folder: Path, role: str) -> list[int]:
    return sorted(_number(path.name) for path in folder.glob(f"[0-9]*.{role}.json"))


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _newest(folder: Path, role: str) -> int:
    return max(_versions(folder, role), default=0)
