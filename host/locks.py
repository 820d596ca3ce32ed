"""File locks between processes, for example on a data folder.

The kernel releases a lock when its holder ends, however it ends. A lock is valid on one machine only. Standard library
only, because it also runs on a device before anything is installed there. Source: flock(2),
proc_locks(5), proc_pid_fdinfo(5).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_LOCKS = Path("/proc/locks")


def take_lock(path: Path, *, waiting: bool = False, says_who: bool = False) -> BinaryIO:
    """Lock a file; closing the returned file releases the lock.

    The file is created if it does not exist, but its folder must. ``waiting`` waits while another process holds the
    lock; ``says_who`` writes this process's id into the file, for :func:`holder_of`.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: the file cannot be created or written.
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


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder itself, without a file in it.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it is no folder, may not be read, or its file system has no such locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def holder_of(path: Path) -> int | None:
    """The id of the process that holds a lock; None if the lock is free, 0 if the holder did not write its id.

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


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of a file, which need not be readable; also if the kernel does not say.

    Raises:
        OSError: there is no such file.
    """
    if os.access(path, os.R_OK):
        return holder_of(path) is not None
    place = f"{_device(path)}:{path.stat().st_ino}"
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return True
    return any(place == field for line in lines for field in line.split()[5:6])


def _device(path: Path) -> str:
    """The number of the device of a file as ``/proc/locks`` has it, which for btrfs is not that of ``stat``."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        fields = (line.split(maxsplit=1) for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines())
        mount = dict(fields)["mnt_id:"]
    finally:
        os.close(descriptor)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        number, _parent, device, *_ = line.split()
        if number == mount:
            return _numbers(*map(int, device.split(":")))
    device_number = path.stat().st_dev
    return _numbers(os.major(device_number), os.minor(device_number))


def _numbers(major: int, minor: int) -> str:
    return f"{major:02x}:{minor:02x}"
