"""A content-addressed store in files: a blob's name is its sha256.

A blob is written to a temporary file, synced to disk and renamed, so it is complete or absent, even after a power cut.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

from nightjar.host.files import private_folder, put_in_place, read_file
from nightjar.host.put_away import NO_FILE, put_away
from nightjar.wire.errors import IntegrityError, UnavailableError, rewording
from nightjar.wire.identifiers import sha256 as checked_sha256

WRITING = ".writing-"
"""Prefix of the names of incomplete files."""


MOST_BYTES = 2**30
"""Longer than any artifact: a file of this length is damaged, and is not read to find out."""
_RESTORE = "copy it from a backup, which has it under the same name"


class StoredBlob(NamedTuple):
    """A blob in a store."""

    sha256: str
    size_bytes: int
    stored_s: float  # when it was last stored; wall-clock time


class FileBlobs:
    """Blobs in a folder, which is created if missing, spread over 256 subfolders.

    Raises:
        UnavailableError: the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with disk(folder):
            private_folder(folder)

    def path(self, sha256: str) -> Path:
        """Path of a blob, which need not exist.

        Raises:
            RemoteProtocolError: the name is not a sha256, so it could be a path to another folder.
        """
        name = checked_sha256(sha256)
        return self._folder / name[:2] / name

    def find(self, sha256: str) -> Path | None:
        """The file of a blob; None if there is no such blob.

        Raises:
            RemoteProtocolError: the name is not a sha256.
        """
        path = self.path(sha256)
        return path if path.is_file() else None

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash.

        Raises:
            UnavailableError: the disk is full or broken.
        """
        name = hashlib.sha256(data).hexdigest()
        target = self.path(name)
        with disk(target):
            if self._is_sound(target, name):
                os.utime(target)  # so that retention sees that it is wanted again
            else:
                private_folder(target.parent)
                _write(target, data)
        return name

    def listed(self) -> Iterator[StoredBlob]:
        """All blobs.

        Raises:
            UnavailableError: the folder cannot be read.
        """
        with disk(self._folder):
            for path in stored_in(self._folder):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield StoredBlob(path.name, status.st_size, status.st_mtime)

    def abandoned(self, now_s: float, age_s: float) -> dict[Path, int]:
        """Incomplete files of writers that were killed, each with its bytes: so old that nobody writes it any more.

        Raises:
            UnavailableError: the folder cannot be read.
        """
        found = {}
        with disk(self._folder):
            for path in self._folder.glob(f"{2 * '[0-9a-f]'}/{WRITING}*"):
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    # One from the future was left while the clock was wrong.
                    if stat.S_ISREG(status.st_mode) and abs(now_s - status.st_mtime) >= age_s:
                        found[path] = status.st_size
        return found

    def remove(self, sha256: str) -> None:
        """Delete a blob if it exists.

        Raises:
            UnavailableError: it cannot be deleted.
        """
        path = self.path(sha256)
        with disk(path):
            path.unlink(missing_ok=True)

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
            UnavailableError: the blob cannot be read.
        """
        path, data = self.path(sha256), None
        with disk(path), suppress(FileNotFoundError):
            if self._is_sound(path, sha256):
                data = read_file(path, MOST_BYTES)
            elif path.exists():
                data = b""
        return checked(sha256, data, str(self._folder))

    def _is_sound(self, path: Path, sha256: str) -> bool:
        """Whether a file has the hash that names it; a long one that has not is never in memory.

        Something that is no file is put away.
        """
        if not path.is_file():
            put_away(self._folder.parent, [path], NO_FILE)
            return False
        if path.stat().st_size > MOST_BYTES:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def stored_in(folder: Path) -> Iterator[Path]:
    """What has the name of a blob in a folder of blobs; damage may have left something else than a file there."""
    return folder.glob(f"{2 * '[0-9a-f]'}/{64 * '[0-9a-f]'}")


def checked(sha256: str, data: bytes | None, where: str) -> bytes:
    """The bytes of a blob as a store gave them, None if it has none.

    Raises:
        IntegrityError: there is no such blob, or its bytes are damaged.
    """
    if data is None:
        msg = f"there is no blob {sha256} in {where}; {_RESTORE}"
        raise IntegrityError(msg)
    if hashlib.sha256(data).hexdigest() != sha256:
        msg = f"{sha256} is damaged in {where}; {_RESTORE}"
        raise IntegrityError(msg)
    return data


def _write(target: Path, data: bytes) -> None:
    """Write a blob; ``replace_file`` would not do, as the service and its worker may store one at the same time."""
    handle, partial = tempfile.mkstemp(prefix=WRITING, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        put_in_place(Path(partial), target)
    except OSError:
        Path(partial).unlink(missing_ok=True)
        raise


def disk(path: Path) -> AbstractContextManager[None]:
    """A block that works on the disk.

    Raises:
        UnavailableError: the disk is full or broken, or does not allow it.
    """
    return rewording(UnavailableError, str(path), "free some space or give another data_dir")
