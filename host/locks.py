"""Locks between processes: a file that one of them holds, such as that of a data folder.

The kernel gives a lock back when its holder ends, however it ends. It holds on one machine only. Standard library only,
because it also runs on a device before anything is installed there. Source: flock(2).
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO


def take_lock(path: Path, *, waiting: bool = False, says_who: bool = False) -> BinaryIO:
    """Lock a file; closing what is returned gives the lock back.

    Args:
        path: made if it is not there; its folder must be.
        waiting: for as long as another process holds it, instead of raising.
        says_who: write the number of this process into it, for :func:`holder_of`.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the file cannot be made or written.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX if waiting else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if says_who:
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
    except BaseException:
        file.close()
        raise
    return file


def holder_of(path: Path) -> int | None:
    """The number of the process that holds a lock; None if none does, 0 if it does not say.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                number = file.read(20).strip()
                return int(number) if number.isdigit() else 0
    except FileNotFoundError:
        pass
    return None
