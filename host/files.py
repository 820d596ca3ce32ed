"""Durable and private files: after a power cut at any moment a file is the old one or the new one, in full.

The order is what does it: write beside the file, flush to the disk, rename, flush the folder. Standard library only,
because it also runs on a device before anything is installed there. One process at a time replaces a given path.

Source: open(2), rename(2), fsync(2); T. S. Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.
"""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL = ".part"
"""Ends the names of files that are not whole yet."""
PRIVATE, READABLE = 0o600, 0o644
"""Permissions: its owner's alone, or to be read by everybody on this machine."""


def close_what_is_written() -> None:
    """Let whatever this process and its children make be its owner's alone, unless they say otherwise."""
    os.umask(0o077)


def private_folder(folder: Path) -> None:
    """Make a folder for its owner alone, or close the one that is there.

    Raises:
        OSError: it cannot be made, or belongs to somebody else and is open.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or close the one that is there; for programs that would open it wider.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))
    path.chmod(PRIVATE)


def replace_file(path: Path, data: bytes, mode: int = PRIVATE) -> bool:
    """Write a file in one step, durably; whether it was another one before. An equal file is not written again.

    Args:
        path: its folder must exist.
        data: all of it.
        mode: permissions; the data never lies in a file with wider ones.

    Raises:
        OSError: it cannot be written; the old file is untouched.
    """
    if path.is_file() and path.stat().st_mode & 0o7777 == mode and path.read_bytes() == data:
        sync_folder(path.parent)  # its writer may have been killed just before this
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


def put_in_place(partial: Path, path: Path) -> None:
    """Give a file that was written beside ``path`` its name, durably.

    Raises:
        OSError: the disk refuses.
    """
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def put_folder_in_place(partial: Path, folder: Path) -> None:
    """Give a folder that was filled beside ``folder`` its name, durably; there is none of that name yet.

    Raises:
        OSError: the disk refuses.
    """
    os.sync()  # there may be thousands of small files: one flush for all
    partial.rename(folder)
    sync_folder(folder.parent)


def overwrite_file(path: Path, data: bytes) -> None:
    """Write over the beginning of a file where it lies on the disk, durably: for a secret that is to be gone.

    Flash memory may keep old copies all the same.

    Raises:
        OSError: it is not there, or cannot be written.
    """
    with path.open("r+b") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_link(link: Path, target: str) -> bool:
    """Let a symbolic link lead to ``target``, in one step, durably; whether it led elsewhere before.

    Raises:
        OSError: it cannot be made.
    """
    if link.is_symlink() and str(link.readlink()) == target:
        return False
    partial = link.with_name(link.name + PARTIAL)
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)
    sync_folder(link.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Make what was renamed, made or removed in a folder durable.

    Raises:
        OSError: the disk refuses.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
