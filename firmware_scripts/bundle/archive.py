"""Writes a bundle's archive: a plain tar of the manifest, its signature, and each file that the manifest lists.

The tar is uncompressed because wheels are already compressed, and a device must open it with standard tools. Equal
files give identical bytes: order, times, owners and modes are fixed. :mod:`firmware_scripts.bundle.reading` reads it.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from firmware_scripts.bundle.reading import FORMAT, MANIFEST, SIGNATURE, read_archive
from firmware_scripts.bundle.signing import check_signature, sign
from firmware_scripts.bundle.wheelhouse import SOURCE_DATE_EPOCH
from firmware_scripts.core.manifest import ListedFile
from host.files import put_in_place


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a bundle: facts about it, and the bytes of each file by relative path."""

    facts: Mapping[str, str]
    files: Mapping[str, bytes]


def write_archive(path: Path, contents: Contents, key: Ed25519PrivateKey) -> None:
    """Write a bundle, with all files under a folder named like ``path``.

    Raises:
        OSError: the archive cannot be written.
    """
    rows = [
        {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        for name, data in sorted(contents.files.items())
    ]
    manifest = (json.dumps({"format": FORMAT, **contents.facts, "files": rows}, indent=2) + "\n").encode()
    members = [(MANIFEST, manifest), (SIGNATURE, sign(key, manifest)), *sorted(contents.files.items())]
    partial = path.with_name(f"{path.name}.part")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members:
            member = tarfile.TarInfo(f"{path.stem}/{name}")
            member.size, member.mtime, member.mode = len(data), SOURCE_DATE_EPOCH, 0o644
            archive.addfile(member, io.BytesIO(data))
    put_in_place(partial, path)


def check_archive(path: Path, key: Ed25519PublicKey) -> tuple[ListedFile, ...]:
    """Read and check a whole bundle; return the files that it lists.

    Raises:
        RemoteProtocolError: the archive does not have the layout of :func:`write_archive`.
        IntegrityError: the signature, or the hash or size of a file, does not match.
        OSError: the archive cannot be read.
    """
    return read_archive(path, partial(check_signature, key)).files


def lock_lines(wheels: Sequence[tuple[str, str, str]]) -> bytes:
    r"""A requirements file that accepts only these wheels, given as (name, version, sha256).

    >>> lock_lines([("numpy", "1.26.4", "ab")])
    b'numpy==1.26.4 --hash=sha256:ab\n'
    """
    return "".join(f"{name}=={version} --hash=sha256:{sha256}\n" for name, version, sha256 in wheels).encode()
