"""A file in the data folder that takes room for nothing, so that pruning has some on a full disk.

The database cannot even be opened on a disk without a free byte, and deleting rows writes before it frees. ``prune
--yes`` deletes the file there; the service makes it again when there is room.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from nightjar.coordinator.storage.blobs import disk
from nightjar.host.put_away import NO_FILE, put_away

FILE = "reserve"
RESERVE_BYTES = 16 * 2**20
"""The log of an SQLite database, 4 MB before it is emptied, and its index, some times over."""
_PLENTY = 16
"""The reserve is made where so many times its size is free."""


def keep_reserve(data_dir: Path) -> None:
    """Make the reserve if there is plenty of room.

    Raises:
        UnavailableError: the disk does not work.
    """
    path = data_dir / FILE
    with disk(path):
        if not path.is_file():
            put_away(data_dir, [path], NO_FILE)
        elif 512 * path.stat().st_blocks >= RESERVE_BYTES:  # a sparse copy takes no room
            return
        if shutil.disk_usage(data_dir).free < _PLENTY * RESERVE_BYTES:
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        finally:
            os.close(descriptor)


def has_reserve(data_dir: Path) -> bool:
    """Whether there is a reserve to give up."""
    return os.path.isfile(data_dir / FILE)  # noqa: PTH113 - also false in a folder that may not be searched


def lacks_room(data_dir: Path) -> bool:
    """Whether no file as large as the reserve can be made besides it: what is free says nothing of quotas."""
    try:
        with tempfile.TemporaryFile(dir=data_dir) as file:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
    except OSError as error:  # another one, such as a disk that may only be read, is mended by no room
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return False


def give_up_reserve(data_dir: Path) -> None:
    """Delete the reserve, if there is one.

    Raises:
        UnavailableError: the disk does not work.
    """
    path = data_dir / FILE
    with disk(path), suppress(FileNotFoundError):
        path.unlink()
