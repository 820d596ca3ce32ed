"""Content-addressed files: a blob's name is its sha256.

Written to a temporary file, flushed to the disk, renamed; so a blob is there whole or not at all, also after a power
cut.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from host.files import put_in_place
from wire.errors import IntegrityError, UnavailableError
from wire.identifiers import sha256 as checked_sha256

WRITING = ".writing-"
"""Begins the names of files that are not whole yet."""
_PARTS_AT_ONCE = min(os.sysconf("SC_IOV_MAX"), 1024)


class FileBlobs:
    """Blobs in a folder, spread over 256 subfolders.

    Args:
        folder: made if it is not there.

    Raises:
        UnavailableError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unavailable(folder, error) from error

    def path(self, sha256: str) -> Path:
        """Where a blob lies, if it is there.

        Raises:
            RemoteProtocolError: not a sha256; it could be a path to somewhere else.
        """
        name = checked_sha256(sha256)
        return self._folder / name[:2] / name

    def put(self, data: bytes) -> str:
        """Store durably; the hash.

        Raises:
            UnavailableError: no room, or a broken disk.
        """
        name = hashlib.sha256(data).hexdigest()
        target = self.path(name)
        if target.exists():
            return name
        try:
            target.parent.mkdir(exist_ok=True)
            _write(target, data)
        except OSError as error:
            raise unavailable(target, error) from error
        return name

    def get(self, sha256: str) -> bytes:
        """Read and verify.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
            UnavailableError: it cannot be read.
        """
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            msg = f"there is no blob {sha256} in {self._folder}"
            raise IntegrityError(msg) from error
        except OSError as error:
            raise unavailable(path, error) from error
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            msg = f"{path} is damaged: its bytes have the sha256 {found}"
            raise IntegrityError(msg)
        return data

    def delete(self, sha256: str) -> None:
        """Delete it if it is there.

        Raises:
            UnavailableError: a broken disk.
        """
        path = self.path(sha256)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise unavailable(path, error) from error

    def sweep(self, needed: Collection[str]) -> int:
        """Delete everything else: what a process left that was killed between a blob and its row; how many files."""
        removed = 0
        for path in self._folder.glob("*/*"):
            if path.name not in needed:
                path.unlink(missing_ok=True)
                removed += 1
        return removed


def _write(target: Path, data: bytes) -> None:
    """Not by ``replace_file``: the service and its worker may store the same blob at the same time."""
    handle, partial = tempfile.mkstemp(prefix=WRITING, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        put_in_place(Path(partial), target)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def write_durably(target: Path, *parts: bytes, over: Path | None = None) -> None:
    """Write a file that is there whole or not at all, also after a power cut.

    Args:
        target: its name.
        parts: what is in it, one after the other.
        over: a file that nobody needs, to be written over instead of a new one; what it is longer stays behind the
            parts. Room that the kernel has in memory and on the disk already costs a twentieth of fresh room.

    Raises:
        OSError: it could not be written; nothing of it is left.
    """
    if over is None:
        handle, name = tempfile.mkstemp(prefix=WRITING, dir=target.parent)
    else:
        handle, name = os.open(over, os.O_RDWR), str(over)
    try:
        try:
            _write_parts(handle, parts)
            os.fsync(handle)
        finally:
            os.close(handle)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the rename itself
    finally:
        os.close(folder)


def _write_parts(handle: int, parts: Sequence[bytes]) -> None:
    """Without copies, and with few calls that give the interpreter away."""
    for at in range(0, len(parts), _PARTS_AT_ONCE):
        some = parts[at : at + _PARTS_AT_ONCE]
        left = sum(map(len, some)) - os.writev(handle, some)
        if left:  # a disk that is full may take a part of it, and say why with the next one
            rest = memoryview(b"".join(some))[-left:]
            while rest:
                rest = rest[os.write(handle, rest) :]


def unavailable(path: Path, error: OSError) -> UnavailableError:
    """What to raise when the disk refuses."""
    return UnavailableError(f"{path}: {error.strerror or error}; free some space or give another data_dir")
