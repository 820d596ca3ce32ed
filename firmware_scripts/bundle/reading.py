"""Reads a bundle from start to end, and trusts nothing: also on a device, so the standard library is all it needs.

A member that the signed manifest does not list, in its place and with its hash, refuses the archive. Who checks the
signature is passed in: ``cryptography`` on a host, ``openssl`` on a device that has nothing else yet.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from firmware_scripts.core.manifest import MAX_MANIFEST_BYTES, ListedFile, parse_manifest
from wire.errors import IntegrityError, RemoteProtocolError

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
FORMAT = 1
# A signature of a manifest is no signature of anything else that the same key may sign one day.
SIGNED_CONTEXT = b"nightjar bundle manifest 1\0"
_SIGNATURE_BYTES = 64
_READ_BYTES = 2**20
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

# (manifest, signature): returns if it is good, raises IntegrityError if not.
CheckSignature = Callable[[bytes, bytes], None]
# Takes each piece of a listed file in turn. What it took may still prove to be wrong: look at nothing before the end.
Take = Callable[[ListedFile, bytes], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """A bundle whose signature is good: what the manifest says of it, and what it lists."""

    manifest: bytes
    signature: bytes
    facts: Mapping[str, object]
    files: tuple[ListedFile, ...]


def read_archive(path: Path, check: CheckSignature, take: Take = lambda _file, _data: None) -> Checked:
    """Read a bundle, check all of it, and hand on what it holds.

    Raises:
        RemoteProtocolError: it is not laid out as a bundle is.
        IntegrityError: the signature, or the hash of a file, does not fit.
        OSError: it cannot be read, or ``take`` cannot go on.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            checked = _signed(archive, check)
            for file in checked.files:
                _compare(archive, file, take)
            if archive.next() is not None:
                msg = f"{path.name} holds more than its manifest lists"
                raise RemoteProtocolError(msg, code="bundle")
    except tarfile.TarError as error:
        msg = f"{path.name} is no bundle, or was cut short: {error}"
        raise RemoteProtocolError(msg, code="bundle") from error
    return checked


def read_manifest(path: Path, check: CheckSignature) -> Checked:
    """Read what a bundle says of itself, and check that its owner says so; its files are not looked at.

    Raises:
        RemoteProtocolError: it is not laid out as a bundle is.
        IntegrityError: the signature does not fit.
        OSError: it cannot be read.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            return _signed(archive, check)
    except tarfile.TarError as error:
        msg = f"{path.name} is no bundle, or was cut short: {error}"
        raise RemoteProtocolError(msg, code="bundle") from error


def _signed(archive: tarfile.TarFile, check: CheckSignature) -> Checked:
    manifest = _whole(archive, MANIFEST, MAX_MANIFEST_BYTES)
    signature = _whole(archive, SIGNATURE, _SIGNATURE_BYTES)
    check(manifest, signature)
    files = parse_manifest(manifest)
    facts = json.loads(manifest)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        msg = f"expected a manifest of format {FORMAT}: this bundle is newer than what reads it, or none"
        raise RemoteProtocolError(msg, code="bundle")
    return Checked(manifest, signature, facts, files)


def _whole(archive: tarfile.TarFile, name: str, limit_bytes: int) -> bytes:
    member = _next(archive, name)
    if member.size > limit_bytes:
        msg = f"{name} has {member.size} bytes, more than {limit_bytes}"
        raise RemoteProtocolError(msg, code="bundle")
    file = archive.extractfile(member)
    return file.read() if file else b""


def _compare(archive: tarfile.TarFile, wanted: ListedFile, take: Take) -> None:
    member = _next(archive, wanted.path)
    digest = hashlib.sha256()
    take(wanted, b"")  # also an empty file is one
    if file := archive.extractfile(member):
        while data := file.read(_READ_BYTES):
            digest.update(data)
            take(wanted, data)
    if digest.hexdigest() != wanted.sha256:
        msg = f"{wanted.path} is not the file that the manifest lists"
        raise IntegrityError(msg)


def _next(archive: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    member = archive.next()
    folder, _, rest = member.name.partition("/") if member else ("", "", "")
    # The folder is not signed, so it may only be one that a tar can be unpacked into without harm.
    if member is None or not member.isreg() or rest != name or not _FOLDER.fullmatch(folder):
        found = repr(member.name[:80]) if member else "the end"
        msg = f"expected the file {name!r} in the bundle, found {found}"
        raise RemoteProtocolError(msg, code="bundle")
    return member
