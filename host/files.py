"""Durable and private files, with atomic replace: after a power cut, a file is completely the old or the new one.

The order of the steps guarantees this: write a file next to it, flush it to disk, rename it, flush the folder. Standard
library only, because it also runs on a device before anything is installed there. Only one process at a time may
replace a given path. Every function raises OSError if the file system refuses.

Source: open(2), rename(2), fsync(2); T. S. Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PARTIAL = ".part"
"""Suffix of files that are not complete yet."""
PRIVATE, READABLE = 0o600, 0o644
"""Permissions: for the owner only, or readable by every user of the machine."""
MOST_BYTES = 2**26
"""More than a small file of ours has, and little enough for the memory of a small board: a longer one is damaged."""


class _Flushed:
    folders = 0


def folders_flushed() -> int:
    """How often this process has flushed a folder, which has the file system write to its journal, too."""
    return _Flushed.folders


def close_what_is_written() -> None:
    """Set the umask so that files of this process and its children are private to their owner by default."""
    os.umask(0o077)


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner can access, or restrict an existing one.

    Raises:
        OSError: the folder cannot be created, or is open to others and belongs to another user.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def private_file(path: Path) -> None:
    """Create an empty file that only its owner can access, or restrict an existing one.

    For programs that would create the file with wider permissions.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))
    path.chmod(PRIVATE)


def read_file(path: Path, most_bytes: int | None = None) -> bytes:
    """Read a file, and never wait: what is no file, such as a named pipe that damage has left, is refused.

    ``most_bytes`` are read from its beginning; negative: all; None: all of a file that can be one of ours.

    Raises:
        OSError: it cannot be read, is no regular file, or is longer than ours are.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if most_bytes is None and status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"expected at most {MOST_BYTES} bytes, it has {status.st_size}", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(-1 if most_bytes is None else most_bytes)
    finally:
        os.close(descriptor)  # also for a folder, for which fdopen would not


def replace_file(path: Path, data: bytes, mode: int = PRIVATE) -> bool:
    """Replace a file atomically and durably; return whether it changed. An equal file is not written again.

    The folder must exist. The data is never in a file with wider permissions than ``mode``.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    if _holds(path, data, mode):
        sync_folder(path.parent)  # its writer may have been killed just before it synced the folder
        return False
    partial = path.with_name(path.name + PARTIAL)
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
        put_in_place(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return True


def _holds(path: Path, data: bytes, mode: int) -> bool:
    """Whether a file has these permissions and these bytes; one of another length is not read."""
    if not path.is_file():
        return False
    status = path.stat()
    return status.st_mode & 0o7777 == mode and status.st_size == len(data) and path.read_bytes() == data


def put_in_place(partial: Path, path: Path) -> None:
    """Rename a file that was written next to ``path`` to ``path``, durably."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def put_folder_in_place(partial: Path, folder: Path) -> None:
    """Rename a folder that was filled next to ``folder`` to ``folder``, durably; ``folder`` must not exist yet."""
    os.sync()  # one flush for all files: there may be thousands of small ones
    partial.rename(folder)
    sync_folder(folder.parent)


def overwrite_file(path: Path, data: bytes) -> None:
    """Overwrite the beginning of a file in place, durably, to erase a secret.

    Flash memory may still keep old copies.
    """
    with path.open("r+b") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_link(link: Path, target: str) -> bool:
    """Point a symbolic link to ``target``, atomically and durably; return whether it changed."""
    if link.is_symlink() and str(link.readlink()) == target:
        return False
    partial = link.with_name(link.name + PARTIAL)
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)
    sync_folder(link.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that files renamed, created or removed in it stay so after a power cut."""
    _Flushed.folders += 1
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
