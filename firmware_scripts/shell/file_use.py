"""Finds what uses a file or a disk that is about to be written: loop devices, mounts, swap, exports, programs, locks.

Everything is compared by device and inode, so links, bind mounts and deleted names make no difference. Only root sees
the programs of other users; everybody sees their locks, such as those of a virtual machine.

Source: proc(5), fcntl(2) (open file description locks), loop(4).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightjar.firmware_scripts.core.mounts import parse_mountinfo, parse_swaps
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.wire.errors import RemoteProtocolError

_LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h
_LOOP_INFO_BYTES = 232
_LOOP_MAJOR = 7
_SYSFS_SECTOR_BYTES = 512  # the unit of /sys/block/*/size, whatever the disk's own sectors are
_DELETED = " (deleted)"
_FLOCK = "hhqqi4x"  # struct flock with 64-bit offsets
# Files that the kernel presents to other machines: USB gadgets (a Raspberry Pi Zero as a stick), SCSI and NVMe targets.
_EXPORTS = (
    "kernel/config/usb_gadget/*/functions/mass_storage.*/lun.*/file",
    "class/udc/*/device/gadget*/lun*/file",
    "kernel/config/target/core/fileio_*/*/udev_path",
    "kernel/config/nvmet/subsystems/*/namespaces/*/device_path",
)
_SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class _Opened:
    """The open file or disk that is looked for."""

    fd: int
    path: Path
    status: os.stat_result
    disks: frozenset[int]  # device numbers of a disk and its partitions; empty for a file

    def is_at(self, status: os.stat_result) -> bool:
        """Whether ``status`` is that of the same file, or of the same disk or one of its partitions."""
        if self.disks:
            return stat.S_ISBLK(status.st_mode) and status.st_rdev in self.disks
        return os.path.samestat(self.status, status)


def uses(fd: int, path: Path) -> tuple[Reason, ...]:
    """Every use of the open file or disk ``fd`` by something other than ``fd`` itself; ``path`` is for messages.

    Locks the file for this process until ``fd`` is closed, as far as its access mode allows.
    """
    status = os.fstat(fd)
    is_disk = stat.S_ISBLK(status.st_mode)
    opened = _Opened(fd, path, status, _disk_and_partitions(status.st_rdev) if is_disk else frozenset())
    found = [*_by_loop_devices(opened), *_by_mounts(opened), *_by_swap(opened), *_by_exports(opened)]
    programs = _programs(opened, writing_only=True)
    found += [_program_reason(opened, each) for each in programs]
    if not is_disk and not found and not _lock(fd):
        found.append(_lock_reason(opened))
    return tuple(dict.fromkeys(found))


def uses_of(path: Path) -> tuple[Reason, ...]:
    """Every use of the file at ``path``; empty if there is none, or this user may not look at it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        return uses(fd, path)
    finally:
        os.close(fd)


# ---- the kernel ------------------------------------------------------------------------------------------------------


def _by_loop_devices(opened: _Opened) -> Iterator[Reason]:
    own = -1
    if os.major(opened.status.st_rdev) == _LOOP_MAJOR and opened.disks:
        # Another loop device may present the same file.
        own = os.minor(opened.status.st_rdev)
        backing = _backing_of(Path(f"/dev/loop{own}"))
        if backing is None:
            return
    else:
        backing = (opened.status.st_dev, opened.status.st_ino)
    for attached in sorted(_SYS.glob("block/loop*/loop/backing_file")):
        folder = attached.parents[1]
        name = folder.name
        presents = name != f"loop{own}" and _presents(folder, backing, opened)
        if presents is False:
            continue
        points = _points_of(folder)
        shown = _shown(opened.path)
        if presents is None:
            text = f"{shown} may be what /dev/{name} presents, whose name was deleted: only root can tell, use sudo"
            yield Reason(Rule.BUSY, text)
        elif points:
            where = " ".join(map(_shown, points))
            text = f"{shown} is mounted at {where} through /dev/{name}: umount {where}, then losetup -d /dev/{name}"
            yield Reason(Rule.MOUNTED, text)
        else:
            text = (
                f"{shown} is in use by the loop device /dev/{name}: close what uses that, then losetup -d /dev/{name}"
            )
            yield Reason(Rule.BUSY, text)


def _presents(folder: Path, backing: tuple[int, int], opened: _Opened) -> bool | None:
    """Whether a loop device presents this file; None if it may, and this user cannot find out."""
    asked = _backing_of(Path("/dev") / folder.name)
    if asked is not None:
        return asked == backing
    # Only root and the group "disk" may ask the kernel; everybody may read the path, which a rename or mount may hide.
    named = _text(folder / "loop/backing_file")
    try:
        status = Path(named).stat()
    except (OSError, ValueError):
        if not named.endswith(_DELETED) or opened.disks:
            return False
        size = int(_text(folder / "size") or 0) * _SYSFS_SECTOR_BYTES + int(_text(folder / "loop/offset") or 0)
        return None if size == opened.status.st_size // _SYSFS_SECTOR_BYTES * _SYSFS_SECTOR_BYTES else False
    return (status.st_dev, status.st_ino) == backing


def _backing_of(loop: Path) -> tuple[int, int] | None:
    """Device and inode of a loop device's file; None if this user may not ask, or it has none."""
    try:
        fd = os.open(loop, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        info = fcntl.ioctl(fd, _LOOP_GET_STATUS64, bytes(_LOOP_INFO_BYTES))
    except OSError:
        return None
    finally:
        os.close(fd)
    device, inode = struct.unpack_from("QQ", info)
    return int(device), int(inode)


def _points_of(folder: Path) -> list[str]:
    """Where a disk, its partitions and what is built on them are mounted."""
    numbers, waiting = set(), [folder]
    while waiting:
        current = waiting.pop()
        number = _text(current / "dev")
        if not number or number in numbers:
            continue
        numbers.add(number)
        waiting += [each.parent for each in current.glob("*/partition")]
        waiting += [each.resolve() for each in current.glob("holders/*")]
    try:
        return [
            mount.point for mount in parse_mountinfo(_text(Path("/proc/self/mountinfo"))) if mount.number in numbers
        ]
    except RemoteProtocolError:
        return []


def _by_mounts(opened: _Opened) -> Iterator[Reason]:
    if opened.disks:
        return  # judged from lsblk, and refused by the kernel
    try:
        mounts = parse_mountinfo(_text(Path("/proc/self/mountinfo")))
    except RemoteProtocolError:
        return
    own = os.path.realpath(opened.path)
    device = opened.status.st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    shown = _shown(opened.path)
    for mount in mounts:
        # The file may be the source (erofs, FUSE), or itself be mounted over another file.
        if mount.source.startswith("/") and not mount.source.startswith("/dev/") and _is(opened, mount.source):
            text = f"{shown} is mounted at {_shown(mount.point)}: umount {_shown(mount.point)}"
            yield Reason(Rule.MOUNTED, text)
        elif (
            mount.root != "/"
            and mount.point != own
            and (mount.number == number or mount.file_system == "btrfs")  # whose files have other device numbers
            and _is(opened, mount.point)
        ):
            text = f"{shown} is mounted over {_shown(mount.point)}: umount {_shown(mount.point)}"
            yield Reason(Rule.MOUNTED, text)


def _by_swap(opened: _Opened) -> Iterator[Reason]:
    try:
        swaps = parse_swaps(_text(Path("/proc/swaps")))
    except RemoteProtocolError:
        return
    for swap in swaps:
        if _is(opened, swap.path):
            shown = _shown(swap.path)
            yield Reason(Rule.SWAP, f"{_shown(opened.path)} is used as swap: swapoff {shown}")


def _by_exports(opened: _Opened) -> Iterator[Reason]:
    for pattern in _EXPORTS:
        for file in _SYS.glob(pattern):
            if (named := _text(file)) and _is(opened, named):
                text = f"{_shown(opened.path)} is presented to another machine ({file}): stop that first"
                yield Reason(Rule.BUSY, text)


def _is(opened: _Opened, named: str) -> bool:
    try:
        return opened.is_at(Path(named).stat())
    except (OSError, ValueError):
        return False


def _disk_and_partitions(number: int) -> frozenset[int]:
    folder = _SYS / f"dev/block/{os.major(number)}:{os.minor(number)}"
    numbers = {number}
    for partition in folder.glob("*/partition"):
        major, _, minor = _text(partition.parent / "dev").partition(":")
        if major and minor:
            numbers.add(os.makedev(int(major), int(minor)))
    return frozenset(numbers)


# ---- programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Program:
    process: int
    name: str

    def __str__(self) -> str:
        return f"{printable(self.name, 40) or 'a program'} (process {self.process})"


def _programs(opened: _Opened, *, writing_only: bool) -> list[_Program]:
    """The programs that have the file or disk open, or in their memory."""
    # The kernel's own inode number, which stat(2) need not show (overlay). Comparing it first avoids asking servers
    # that do not answer about files that are theirs.
    own = "" if opened.disks else _field(Path(f"/proc/self/fdinfo/{opened.fd}"), "ino")
    found = []
    for process in sorted(int(name) for name in _names(Path("/proc")) if name.isdecimal()):
        folder = Path(f"/proc/{process}")
        if _has_open(folder, opened, own, writing_only=writing_only) or _has_mapped(folder, opened):
            found.append(_Program(process, _text(folder / "comm")))
    return found


def _has_open(folder: Path, opened: _Opened, own: str, *, writing_only: bool) -> bool:
    mine = folder.name == str(os.getpid())
    for name in _names(folder / "fd"):
        if mine and name == str(opened.fd):
            continue
        about = _text(folder / "fdinfo" / name)
        fields = dict(line.partition(":")[::2] for line in about.splitlines())
        flags = int(fields.get("flags", "0").strip() or "0", 8)
        if flags & os.O_PATH or (writing_only and flags & os.O_ACCMODE == os.O_RDONLY):
            continue
        inode = fields.get("ino", "").strip()
        if own and inode and inode != own:
            continue
        link = folder / "fd" / name
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("/") and opened.is_at(link.stat()):
                return True
    return False


def _has_mapped(folder: Path, opened: _Opened) -> bool:
    """Whether a program writes to the file through its memory, which needs no open descriptor."""
    if opened.disks:
        return False
    inode = str(opened.status.st_ino)
    for line in _text(folder / "maps").splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1].startswith("rw") and fields[1].endswith("s") and fields[4] == inode:
            major, _, minor = fields[3].partition(":")
            if os.makedev(int(major, 16), int(minor, 16)) == opened.status.st_dev or _is(opened, fields[5]):
                return True
    return False


def _program_reason(opened: _Opened, program: _Program) -> Reason:
    shown = _shown(opened.path)
    if program.name.startswith(("qemu", "kvm", "VBox", "vmware", "firecracker", "cloud-hyperviso")):
        return Reason(Rule.BUSY, f"{shown} is the disk of a virtual machine, {program}: shut it down first")
    return Reason(Rule.BUSY, f"{shown} is open for writing in {program}: close it there, or end that program")


# ---- locks -----------------------------------------------------------------------------------------------------------


def _lock(fd: int) -> bool:
    """Lock the file against programs that lock, as QEMU does; false if one of them holds a lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    whole = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        held = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, whole))
        if held[0] != fcntl.F_UNLCK:
            return False
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.EACCES:  # POSIX allows it in place of EAGAIN
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


_NO_LOCKS = frozenset({errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""Answers of file systems that have no such locks; then nobody can hold one."""


def _lock_reason(opened: _Opened) -> Reason:
    shown = _shown(opened.path)
    programs = [each for each in _programs(opened, writing_only=False) if each.process != os.getpid()]
    who = ", ".join(map(str, programs)) or "another program (root sees which: run this with sudo)"
    return Reason(Rule.BUSY, f"{shown} is locked by {who}, perhaps a virtual machine: wait for it, or end it")


def _shown(path: Path | str) -> str:
    """A path in full, since it is in a command that a person shall type."""
    return printable(str(path), 4096)


def _field(path: Path, name: str) -> str:
    return next((line.partition(":")[2].strip() for line in _text(path).splitlines() if line.startswith(name)), "")


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read().decode(errors="surrogateescape").removesuffix("\n")
    except OSError:
        return ""
