"""Files that are whole or not there: temporary, flush, rename, flush the folder."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int = 0o644) -> bool:
    """Write a file in one step; whether it was another one before. What stays costs a card no write.

    Raises:
        OSError: it cannot be written.
    """
    if path.is_file() and path.stat().st_mode & 0o7777 == mode and path.read_bytes() == data:
        return False
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)
    return True


def replace_link(link: Path, target: str) -> bool:
    """Let a symbolic link lead to ``target``, in one step; whether it led elsewhere before.

    Raises:
        OSError: it cannot be made.
    """
    if link.is_symlink() and str(link.readlink()) == target:
        return False
    partial = link.with_name(f"{link.name}.part")
    partial.unlink(missing_ok=True)
    partial.symlink_to(target)
    partial.replace(link)
    sync_folder(link.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder.

    Raises:
        OSError: it cannot be.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
