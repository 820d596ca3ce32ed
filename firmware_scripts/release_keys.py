"""The owner's half of the releases' metadata (The Update Framework): *root* and *targets*, signed by offline keys.

A folder holds ``metadata/N.root.json`` and ``metadata/N.targets.json``, N being the version, and ``keys/*.key``. Root
says which keys speak for which role; targets lists the bundles. Whoever holds some keys of a role puts them into
``keys``; what has fewer signatures than the role's threshold counts for nothing until the others have signed too
(:func:`cosign`). Only ``online-*.key`` goes to the coordinator, which signs snapshot, timestamp and the order who takes
which release. Every function but :func:`make_repository` raises ConfigError if the folder holds no such metadata.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    Role,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization import DeserializationError
from tuf.api.serialization.json import JSONSerializer

from nightjar.firmware_scripts.bundle.reading import read_manifest
from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.host.files import READABLE, replace_file
from nightjar.wire.errors import ConfigError
from nightjar.wire.releases import ORDER, ROLLOUT, bundle_name

LIFETIME = timedelta(days=400)
"""Offline metadata is renewed once a year; ``nightjar-coordinator doctor`` warns a month before it expires."""
ROOT_FILE = "root.json"
"""The name of the root in a bundle: the first that a device trusts."""
THRESHOLDS = {Root.type: (2, 3), Targets.type: (1, 1)}
"""Role -> (signatures needed, keys), unless the owner says otherwise: one root key may be lost, and one be stolen."""
ONLINE = "online"
ROLES = (Root.type, Targets.type, ONLINE)
_ONLINE_ROLES = (Snapshot.type, Timestamp.type)
_Signed = TypeVar("_Signed", Root, Targets)


def make_repository(folder: Path, thresholds: Mapping[str, tuple[int, int]], now: datetime) -> None:
    """Make keys and the first root and targets in a new folder.

    ``thresholds`` says, by role (root, targets), how many signatures are needed and how many keys are made.

    Raises:
        ConfigError: there are keys already.
        OSError: the folder cannot be written.
    """
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "keys").mkdir(mode=0o700, exist_ok=True)
    root = Root(version=1, expires=_expiry(now), consistent_snapshot=True)
    for role, (needed, number) in thresholds.items():
        root.roles[role] = Role([], needed)
        for signer in _new_signers(folder, role, 1, number):
            root.add_key(signer.public_key, role)
    (online,) = _new_signers(folder, ONLINE, 1, 1)
    for role in _ONLINE_ROLES:
        root.add_key(online.public_key, role)
    targets = Targets(version=1, expires=_expiry(now), delegations=_delegation(online))
    _publish(folder, Metadata(root), root.roles[Root.type].keyids)
    _publish(folder, Metadata(targets), root.roles[Targets.type].keyids)


def renew(folder: Path, role: str, now: datetime) -> None:
    """Publish root or targets again with a new expiry."""
    root = _newest(folder, Root)
    if role == Root.type:
        root.signed.version, root.signed.expires = root.signed.version + 1, _expiry(now)
        _publish(folder, root, root.signed.roles[Root.type].keyids)
    else:
        _publish_targets(folder, _newest(folder, Targets), root.signed, now)


def rotate(folder: Path, role: str, now: datetime) -> None:
    """Replace all keys of a role by as many new ones, and sign root with the former root keys and the present ones."""
    root = _newest(folder, Root)
    signed, former = root.signed, list(root.signed.roles[Root.type].keyids)
    signed.version, signed.expires = signed.version + 1, _expiry(now)
    names = _ONLINE_ROLES if role == ONLINE else (role,)
    retired = list(signed.roles[names[0]].keyids)
    fresh = _new_signers(folder, role, signed.version, len(retired))
    for name in names:
        for keyid in retired:
            signed.revoke_key(keyid, name)
        for signer in fresh:
            signed.add_key(signer.public_key, name)
    _publish(folder, root, (*former, *signed.roles[Root.type].keyids))
    if role != Root.type:
        targets = _newest(folder, Targets)
        if role == ONLINE:
            targets.signed.delegations = _delegation(fresh[0])
        _publish_targets(folder, targets, signed, now)


def add_bundles(folder: Path, bundles: Iterable[Path], now: datetime, *, security: bool) -> tuple[str, ...]:
    """List bundles in a new version of targets; returns their names in it.

    Raises:
        ConfigError: a bundle is listed already with other bytes, or devices could not follow releases after it.
        RemoteProtocolError: a file is no bundle.
        OSError: a bundle cannot be read.
    """
    root, targets, names = _newest(folder, Root).signed, _newest(folder, Targets), []
    for path in bundles:
        checked = read_manifest(path, lambda _manifest, _signature: None)  # devices check the signature
        if ROOT_FILE not in {file.path for file in checked.files}:
            newest = f"{folder}/metadata/{root.version}.root.json"
            msg = f"{path.name} has no {ROOT_FILE}: make it with 'bundle --include {ROOT_FILE}={newest}'"
            raise ConfigError(msg)
        name = bundle_name(str(checked.facts.get("agent")), str(checked.facts.get("platform")))
        target = TargetFile.from_file(name, str(path), ["sha256"])
        target.unrecognized_fields["custom"] = {"security": security}
        known = targets.signed.targets.get(name)
        if known is not None and known.hashes != target.hashes:
            msg = f"{name} is listed already with other bytes; a release never changes: give it a new version"
            raise ConfigError(msg)
        targets.signed.targets[name] = target
        names.append(name)
    _publish_targets(folder, targets, root, now)
    return tuple(names)


def cosign(folder: Path) -> None:
    """Add the signatures of the keys in the folder to the newest root and targets."""
    root = _newest(folder, Root)
    both = (root.signed, *_former(folder, root.signed))
    _publish(folder, root, [keyid for each in both for keyid in each.roles[Root.type].keyids], anew=False)
    _publish(folder, _newest(folder, Targets), root.signed.roles[Targets.type].keyids, anew=False)


def signatures(folder: Path) -> tuple[tuple[str, int, int, datetime], ...]:
    """(file, signatures that count, signatures needed, expiry) of the newest root and targets."""
    root, targets = _newest(folder, Root), _newest(folder, Targets)
    rows = []
    for metadata, judges in ((root, (root.signed, *_former(folder, root.signed))), (targets, (root.signed,))):
        role, data = metadata.signed.type, (metadata.signed_bytes, metadata.signatures)
        found = [judge.get_verification_result(role, *data) for judge in judges]
        least = min(found, key=lambda result: len(result.signed) - result.threshold)
        name = f"{metadata.signed.version}.{role}.json"
        rows.append((name, len(least.signed), least.threshold, metadata.signed.expires))
    return tuple(rows)


def _former(folder: Path, root: Root) -> tuple[Root, ...]:
    """The root before, whose keys must have signed this one too; none before the first."""
    return () if root.version == 1 else (_load(folder, Root, root.version - 1).signed,)


def _publish_targets(folder: Path, targets: Metadata[Targets], root: Root, now: datetime) -> None:
    targets.signed.version, targets.signed.expires = targets.signed.version + 1, _expiry(now)
    _publish(folder, targets, root.roles[Targets.type].keyids)


def _publish(folder: Path, metadata: Metadata[_Signed], keyids: Sequence[str], *, anew: bool = True) -> None:
    """Sign with every key in the folder that counts, and write the file."""
    if anew:
        metadata.signatures.clear()
    for path in sorted((folder / "keys").glob("*.key")):
        signer = CryptoSigner(load_private_key(path))
        if signer.public_key.keyid in keyids:
            metadata.sign(signer, append=True)
    name = f"{metadata.signed.version}.{metadata.signed.type}.json"
    replace_file(folder / "metadata" / name, metadata.to_bytes(JSONSerializer()), READABLE)


def _new_signers(folder: Path, role: str, version: int, number: int) -> list[CryptoSigner]:
    stems = [folder / "keys" / f"{role}-{version}{letter}" for letter in string.ascii_lowercase[:number]]
    for stem in stems:
        make_key(stem.with_suffix(".key"), stem.with_suffix(".pub"))
    return [CryptoSigner(load_private_key(stem.with_suffix(".key"))) for stem in stems]


def _delegation(online: CryptoSigner) -> Delegations:
    key = online.public_key
    role = DelegatedRole(ROLLOUT, [key.keyid], 1, terminating=True, paths=[ORDER])
    return Delegations({key.keyid: key}, {ROLLOUT: role})


def _newest(folder: Path, kind: type[_Signed]) -> Metadata[_Signed]:
    versions = [int(path.name.split(".")[0]) for path in (folder / "metadata").glob(f"[0-9]*.{kind.type}.json")]
    if not versions:
        msg = f"{folder} holds no {kind.type} metadata: make it with 'nightjar-firmware keys init {folder}'"
        raise ConfigError(msg)
    return _load(folder, kind, max(versions))


def _load(folder: Path, kind: type[_Signed], version: int) -> Metadata[_Signed]:
    path = folder / "metadata" / f"{version}.{kind.type}.json"
    try:
        metadata = Metadata[_Signed].from_bytes(path.read_bytes())
    except (OSError, DeserializationError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ConfigError(msg) from error
    if not isinstance(metadata.signed, kind):
        msg = f"{path} is not {kind.type} metadata"
        raise ConfigError(msg)
    return metadata


def _expiry(now: datetime) -> datetime:
    return (now.astimezone(UTC) + LIFETIME).replace(microsecond=0)
