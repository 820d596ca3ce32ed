"""Content-addressed files: a blob's name is its sha256.

Written to a temporary file, flushed to the disk, renamed; so a blob is there whole or not at all, also after a power
cut.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from host.files import private_folder, put_in_place
from wire.errors import IntegrityError, UnavailableError
from wire.identifiers import sha256 as checked_sha256

WRITING = ".writing-"
"""Begins the names of files that are not whole yet."""


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
            private_folder(folder)
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
            private_folder(target.parent)
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


def unavailable(path: Path, error: OSError) -> UnavailableError:
    """What to raise when the disk refuses."""
    return UnavailableError(f"{path}: {error.strerror or error}; free some space or give another data_dir")
