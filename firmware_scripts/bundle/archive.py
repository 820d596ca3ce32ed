"""The archive of a bundle: a plain tar with a manifest first, its signature second, and then each file that it lists.

Plain, because wheels are packed already and a device must be able to open it with what every system has. The same
files give the same bytes: order, times, owners and modes are fixed. :mod:`firmware_scripts.bundle.reading` reads it.
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
    """What a bundle holds: facts about it, and the bytes of each file by its relative path."""

    facts: Mapping[str, str]
    files: Mapping[str, bytes]


def write_archive(path: Path, contents: Contents, key: Ed25519PrivateKey) -> None:
    """Write a bundle under the folder that ``path`` is named after.

    Raises:
        OSError: it cannot be written.
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
    """Read a bundle from start to end and check all of it; returns what it holds.

    Raises:
        RemoteProtocolError: it is not laid out as :func:`write_archive` does.
        IntegrityError: the signature, or the hash of a file, does not fit.
        OSError: it cannot be read.
    """
    return read_archive(path, partial(check_signature, key)).files


def folder_name(agent: str, version: str, platform: str) -> str:
    """The name of a bundle, and of the folder inside it.

    >>> folder_name("nightjar", "0.1.0", "trixie-aarch64")
    'nightjar-0.1.0-trixie-aarch64'
    """
    return f"{agent}-{version}-{platform}"


def lock_lines(wheels: Sequence[tuple[str, str, str]]) -> bytes:
    r"""A requirements file that accepts these (name, version, sha256) and nothing else.

    >>> lock_lines([("numpy", "1.26.4", "ab")])
    b'numpy==1.26.4 --hash=sha256:ab\n'
    """
    return "".join(f"{name}=={version} --hash=sha256:{sha256}\n" for name, version, sha256 in wheels).encode()
