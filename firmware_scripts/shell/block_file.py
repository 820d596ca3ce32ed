"""Disks and files as :class:`nightjar.firmware_scripts.ports.BlockFile`: opened exclusively, flushed, read uncached.

On Linux, ``O_EXCL`` without ``O_CREAT`` claims a block device exclusively: it fails if the disk or one of its
partitions is mounted or held, whatever earlier checks found (open(2)).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.shell.file_use import uses
from nightjar.host.files import PRIVATE

# linux/fs.h
_BLKGETSIZE64 = 0x80081272
_BLKFLSBUF = 0x1261
_BLKSSZGET = 0x1268
_BLKROGET = 0x125E

FILE_SECTOR_BYTES = 512
"""What a file in place of a card is taken to have, as loop devices and virtual machines take it."""
LOCK_TRIES = 50
_LOCK_EVERY_S = 0.1


class OpenFile:
    """Implements BlockFile over a file descriptor."""

    def __init__(self, fd: int, size_bytes: int, sector_bytes: int = FILE_SECTOR_BYTES, *, is_block: bool) -> None:
        self._fd = fd
        self._size_bytes = size_bytes
        self._sector_bytes = sector_bytes
        self._is_block = is_block

    @property
    def size_bytes(self) -> int:
        """Its capacity in bytes."""
        return self._size_bytes

    @property
    def sector_bytes(self) -> int:
        """Its logical sector in bytes."""
        return self._sector_bytes

    @property
    def number(self) -> str:
        """``major:minor`` of the open block device."""
        device = os.fstat(self._fd).st_rdev
        return f"{os.major(device)}:{os.minor(device)}"

    def write_at(self, offset: int, data: memoryview) -> int:
        """Write some of ``data``."""
        return os.pwrite(self._fd, data, offset)

    def read_at(self, offset: int, length_bytes: int) -> bytes:
        """Read up to ``length_bytes``."""
        return os.pread(self._fd, length_bytes, offset)

    def sync(self) -> None:
        """Flush to the medium."""
        os.fsync(self._fd)

    def drop_cache(self) -> None:
        """Make the next reads come from the medium."""
        os.fsync(self._fd)
        if self._is_block:
            # Needs CAP_SYS_ADMIN; members of the group "disk" get only the advice below.
            with contextlib.suppress(PermissionError):
                fcntl.ioctl(self._fd, _BLKFLSBUF, 0)
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def open_block(path: Path, lock_tries: int = LOCK_TRIES) -> Iterator[OpenFile | Reason]:
    """Open a block device exclusively for this process; yields a :class:`Reason` if that is refused."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        yield _refusal(path, error)
        return
    try:
        if not stat.S_ISBLK(os.fstat(fd).st_mode):
            yield Reason(Rule.CHANGED, f"{path} is no block device any more")
            return
        if not _locked(fd, lock_tries):
            yield Reason(Rule.BUSY, f"{path} is locked by another program that writes disks: wait for it, or end it")
            return
        if reasons := uses(fd, path):
            yield reasons[0]
            return
        size_bytes = int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETSIZE64, bytes(8)))[0])
        if struct.unpack("i", fcntl.ioctl(fd, _BLKROGET, bytes(4)))[0]:
            yield Reason(Rule.READ_ONLY, f"the kernel has {path} as read-only: look for the switch on the card")
            return
        yield OpenFile(fd, size_bytes, _sector_bytes(fd), is_block=True)
    finally:
        os.close(fd)


@contextlib.contextmanager
def open_file(path: Path, image_bytes: int) -> Iterator[OpenFile | Reason]:
    """Open or create a regular file of at least ``image_bytes``; yields a :class:`Reason` if that is refused.

    A file that something else uses is refused, and not changed in any way. Else it is for its owner only from then on:
    a card's claim and the key of its Wi-Fi are in it.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW, PRIVATE)
    except OSError as error:
        yield _refusal(path, error)
        return
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            yield Reason(Rule.CHANGED, f"{path} is no ordinary file any more")
            return
        try:
            if reasons := uses(fd, path):
                yield reasons[0]
                return
            if status.st_mode & ~PRIVATE & 0o777:
                os.fchmod(fd, PRIVATE)
            if status.st_size < image_bytes:
                os.ftruncate(fd, image_bytes)
        except OSError as error:
            yield _refusal(path, error)
            return
        yield OpenFile(fd, max(status.st_size, image_bytes), is_block=False)
    finally:
        os.close(fd)


@contextlib.contextmanager
def open_to_read(path: Path) -> Iterator[OpenFile]:
    """Open a disk or a file for reading, without claiming it.

    Raises:
        OSError: the path cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        is_block = stat.S_ISBLK(status.st_mode)
        if not is_block and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is neither a disk nor an ordinary file", str(path))
        if is_block:
            size = int(struct.unpack("Q", fcntl.ioctl(fd, _BLKGETSIZE64, bytes(8)))[0])
            yield OpenFile(fd, size, _sector_bytes(fd), is_block=True)
        else:
            yield OpenFile(fd, status.st_size, is_block=False)
    finally:
        os.close(fd)


def _sector_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, _BLKSSZGET, bytes(4)))[0])


def _locked(fd: int, tries: int) -> bool:
    """Keep udev from probing, and so desktops from mounting, a half-written card.

    Source: systemd, "Locking Block Device Access". udev itself holds the lock briefly after a card is plugged in.
    """
    for _ in range(tries):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_EVERY_S)
        else:
            return True
    return False


def _refusal(path: Path, error: OSError) -> Reason:
    match error.errno:
        case errno.EBUSY | errno.EWOULDBLOCK | errno.ETXTBSY:
            return Reason(Rule.BUSY, f"{path} is in use, says the kernel: unmount it and close what holds it")
        case errno.EACCES | errno.EPERM:
            text = f"{path} may not be written by this user: run it with sudo, or join the group of the device"
            return Reason(Rule.NO_PERMISSION, text)
        case errno.EROFS:
            return Reason(Rule.READ_ONLY, f"{path} is read-only: look for the switch on the card or its adapter")
        case errno.ENOMEDIUM:
            return Reason(Rule.NO_MEDIUM, f"{path} holds no card")
        case _:
            return Reason(Rule.NOT_A_TARGET, f"{path} could not be opened: {error.strerror}")
