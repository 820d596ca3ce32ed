"""Reads a bundle from start to end and trusts none of it. Uses only the standard library: it also runs on devices.

The archive is refused unless every member matches the signed manifest in position, size and hash. Headers are parsed
one by one: tar extensions (sparse files, long names) have their own sizes, and a bundle uses none. The caller passes in
the signature check: ``cryptography`` on a host, ``openssl`` on a device that has nothing else yet.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nightjar.firmware_scripts.core.manifest import MAX_MANIFEST_BYTES, ListedFile, parse_manifest
from nightjar.wire.errors import IntegrityError, RemoteProtocolError

MANIFEST = "manifest.json"
SIGNATURE = "manifest.sig"
FORMAT = 1
# Domain separation: a manifest's signature is not valid for anything else that the key may sign one day.
SIGNED_CONTEXT = b"nightjar bundle manifest 1\0"
_SIGNATURE_BYTES = 64
_READ_BYTES = 2**20
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")

# Takes (manifest, signature); returns if the signature is valid, raises IntegrityError if not.
CheckSignature = Callable[[bytes, bytes], None]
# Receives each piece of a listed file in turn. The data may still prove wrong: do not use it before the end.
Take = Callable[[ListedFile, bytes], None]


@dataclass(frozen=True, slots=True)
class Checked:
    """A bundle with a valid signature: the facts in its manifest, and the files that it lists."""

    manifest: bytes
    signature: bytes
    facts: Mapping[str, object]
    files: tuple[ListedFile, ...]


def read_archive(path: Path, check: CheckSignature, take: Take = lambda _file, _data: None) -> Checked:
    """Read and check a whole bundle, and pass its files to ``take``.

    Raises:
        RemoteProtocolError: the archive does not have the layout of a bundle.
        IntegrityError: the signature, or the hash or size of a file, does not match.
        OSError: the archive cannot be read, or ``take`` failed.
    """
    try:
        with path.open("rb") as archive:
            checked = _signed(archive, check)
            for file in checked.files:
                _compare(archive, file, take)
            if _header(archive) is not None:
                msg = f"{path.name} holds more than its manifest lists"
                raise RemoteProtocolError(msg, code="bundle")
    except tarfile.TarError as error:
        msg = f"{path.name} is no bundle, or was cut short: {error}"
        raise RemoteProtocolError(msg, code="bundle") from error
    return checked


def read_manifest(path: Path, check: CheckSignature) -> Checked:
    """Read a bundle's manifest and check its signature; the files are not read.

    Raises:
        RemoteProtocolError: the archive does not have the layout of a bundle.
        IntegrityError: the signature does not match.
        OSError: the archive cannot be read.
    """
    try:
        with path.open("rb") as archive:
            return _signed(archive, check)
    except tarfile.TarError as error:
        msg = f"{path.name} is no bundle, or was cut short: {error}"
        raise RemoteProtocolError(msg, code="bundle") from error


def _signed(archive: BinaryIO, check: CheckSignature) -> Checked:
    manifest = _whole(archive, MANIFEST, MAX_MANIFEST_BYTES)
    signature = _whole(archive, SIGNATURE, _SIGNATURE_BYTES)
    check(manifest, signature)
    files = parse_manifest(manifest)
    facts = json.loads(manifest)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        msg = f"expected a manifest of format {FORMAT}: this bundle is newer than what reads it, or none"
        raise RemoteProtocolError(msg, code="bundle")
    return Checked(manifest, signature, facts, files)


def _whole(archive: BinaryIO, name: str, limit_bytes: int) -> bytes:
    size_bytes = _next(archive, name)
    if size_bytes > limit_bytes:
        msg = f"{name} has {size_bytes} bytes, more than {limit_bytes}"
        raise RemoteProtocolError(msg, code="bundle")
    return b"".join(_pieces(archive, size_bytes))


def _compare(archive: BinaryIO, wanted: ListedFile, take: Take) -> None:
    size_bytes = _next(archive, wanted.path)
    if size_bytes != wanted.size_bytes:
        msg = f"{wanted.path} has {size_bytes} bytes, the manifest lists it with {wanted.size_bytes}"
        raise IntegrityError(msg)
    digest = hashlib.sha256()
    take(wanted, b"")  # so that an empty file is reported too
    for data in _pieces(archive, size_bytes):
        digest.update(data)
        take(wanted, data)
    if digest.hexdigest() != wanted.sha256:
        msg = f"{wanted.path} is not the file that the manifest lists"
        raise IntegrityError(msg)


def _next(archive: BinaryIO, name: str) -> int:
    """Read the header of the next member, which must be a plain file of this name; return its size."""
    member = _header(archive)
    folder, _, rest = member.name.partition("/") if member else ("", "", "")
    # The folder's name is not signed, so it must be one that tar can unpack without harm.
    plain = member is not None and member.type == tarfile.REGTYPE and member.size >= 0
    if member is None or not plain or rest != name or not _FOLDER.fullmatch(folder):
        shown = repr(member.name[:80]) if member else "the end"
        msg = f"expected the plain file {name!r} in the bundle, found {shown}"
        raise RemoteProtocolError(msg, code="bundle")
    return member.size


def _header(archive: BinaryIO) -> tarfile.TarInfo | None:
    """Read the next member's header; None at the end of the archive."""
    try:
        return tarfile.TarInfo.frombuf(archive.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
    except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # documented under HeaderError only
        return None


def _pieces(archive: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield a member's bytes and skip the padding of its last block."""
    remaining = size_bytes
    while remaining:
        data = archive.read(min(remaining, _READ_BYTES))
        if not data:
            msg = "unexpected end of data"
            raise tarfile.ReadError(msg)
        remaining -= len(data)
        yield data
    archive.read(-size_bytes % tarfile.BLOCKSIZE)
