"""Builds a disk file with a boot partition (FAT) and a root partition (ext4), without a loop device, a mount or root.

File owners survive because unpacking and mke2fs run under one ``fakeroot``. Identifiers and times are fixed, so equal
input gives identical bytes. Both file systems are made in place in the disk's file: everything that mkfs wrote, zeros
included, is data and so in the block map; everything else is a hole.
"""

from __future__ import annotations

import io
import re
import tarfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nightjar.firmware_scripts.image.tools import EPOCH_S, require, run

MIB = 2**20
SECTOR_BYTES = 512
# A power of two, which QEMU requires of SD cards. Holes take no space, and 2 GB is the smallest card sold.
DISK_BYTES = 2048 * MIB
BOOT = range(4 * MIB, 516 * MIB)  # for the kernel and a bundle of up to 400 MB
ROOT = range(516 * MIB, DISK_BYTES)
ROOT_LABEL, BOOT_LABEL = "rootfs", "bootfs"
_JOURNAL_MIB = 16
_NAMESPACE = uuid.UUID("6f9a40f0-1f44-5a51-9a26-4d0be5b5a8c1")


@dataclass(frozen=True, slots=True)
class Parts:
    """The contents of the disk."""

    name: str  # the image's name, from which its identifiers are derived
    root_tar: Path
    files: Mapping[str, bytes]  # our own, by path, laid over Debian's packages
    links: Mapping[str, str]  # our own, target by path
    boot: Mapping[str, bytes]  # the contents of the boot partition's files by path
    # a shell script that finishes the unpacked root file system in the folder ``root``; empty for none
    finish: str = ""


def make_disk(parts: Parts, disk: Path, work: Path) -> None:
    """Write the disk's file, in place of an existing one; ``work`` is a folder for the unpacked root file system.

    Raises:
        UnavailableError: a program is missing or fails.
        OSError: a file cannot be written.
    """
    require("fakeroot", "mke2fs", "debugfs", "mkfs.vfat", "mcopy", "sfdisk")
    disk.unlink(missing_ok=True)
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    _partition(parts.name, disk, work)
    _make_boot(parts, disk, work)
    _make_root(parts, disk, work)


def _partition(name: str, disk: Path, work: Path) -> None:
    lines = ["label: dos", f"label-id: 0x{_identity(name, 'disk').hex[:8]}", "unit: sectors", ""]
    for part, kind in ((BOOT, "c, bootable"), (ROOT, "83")):
        lines.append(f"start={part.start // SECTOR_BYTES}, size={len(part) // SECTOR_BYTES}, type={kind}")
    script = work / "partitions"
    script.write_text("\n".join(lines) + "\n", encoding="ascii")
    run(["sh", "-c", 'exec sfdisk --quiet "$1" < "$2"', "sh", disk, script])


def _make_boot(parts: Parts, disk: Path, work: Path) -> None:
    identity = _identity(parts.name, "boot").hex[:8]
    options = ["-F", "32", "-n", BOOT_LABEL, "-i", identity, "--invariant", "--offset", BOOT.start // SECTOR_BYTES]
    run(["mkfs.vfat", *map(str, options), disk, str(len(BOOT) // 1024)])
    tree = work / "boot"
    for path, data in sorted(parts.boot.items()):
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    run(["find", tree, "-exec", "touch", f"--date=@{EPOCH_S}", "{}", "+"])
    # -m keeps the times; -s copies whole folders, so we set the order of the top-level names.
    roots = sorted(tree.iterdir())
    run(["mcopy", "-s", "-m", "-Q", "-i", f"{disk}@@{BOOT.start}", *roots, "::/"])


def _make_root(parts: Parts, disk: Path, work: Path) -> None:
    (work / "overlay.tar").write_bytes(overlay_tar(parts.files, parts.links))
    identity = str(_identity(parts.name, "root"))
    script = f"""\
set -eu
mkdir root
tar --extract --numeric-owner --preserve-permissions --file "$1" --directory root \\
    --exclude './dev/*' --exclude './boot/*'
tar --extract --numeric-owner --file overlay.tar --directory root --keep-directory-symlink
{parts.finish}
find root -newermt @{EPOCH_S} -exec touch --no-dereference --date=@{EPOCH_S} {{}} +
mke2fs -q -t ext4 -L {ROOT_LABEL} -U {identity} -m 1 -J size={_JOURNAL_MIB} -d root \\
    -E hash_seed={identity},lazy_itable_init=1,lazy_journal_init=0,offset={ROOT.start} "$2" {len(ROOT) // 1024}k
"""
    run(["fakeroot", "--", "sh", "-c", script, "sh", parts.root_tar, disk], cwd=work)
    image = f"{disk}?offset={ROOT.start}"
    _settle_times(image, work)
    _write_journal(disk, image)


def _settle_times(image: str, work: Path) -> None:
    """Fix atime and ctime, which mke2fs copied from the unpacked files, where they cannot be set."""
    counts = dict(re.findall(r"^(Inode count|Free inodes): +(\d+)$", run(["dumpe2fs", "-h", image]), re.M))
    # mke2fs allocates inode numbers in order, so the used ones come first.
    used = int(counts["Inode count"]) - int(counts["Free inodes"])
    script = work / "times"
    lines = [
        f"set_inode_field <{number}> {field} @{EPOCH_S}"
        for number in range(1, used + 1)
        for field in ("atime", "ctime")
    ]
    script.write_text("\n".join(lines), encoding="ascii")
    run(["debugfs", "-w", "-f", script, image])


def _write_journal(disk: Path, image: str) -> None:
    """Turn the journal's holes into zeros: holes would leave old data on a card, perhaps another journal's blocks."""
    listing = run(["debugfs", "-R", "blocks <8>", image])
    numbers = [int(number) for number in re.findall(r"\d+", listing)]
    block_bytes = 4096
    with disk.open("r+b") as file:
        for number in numbers:
            file.seek(ROOT.start + number * block_bytes)
            data = file.read(block_bytes)
            file.seek(-block_bytes, 1)
            file.write(data)


def _identity(name: str, part: str) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{name}/{part}")


def overlay_tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """A tar of files (contents by path) and symlinks (targets by path), all owned by root and with one time.

    A file that begins with ``#!`` is executable. Equal input gives identical bytes.

    >>> import io, tarfile
    >>> made = overlay_tar({"etc/hostname": b"nightjar"}, {"etc/localtime": "/usr/share/zoneinfo/UTC"})
    >>> tarfile.open(fileobj=io.BytesIO(made)).getnames()
    ['etc', 'etc/hostname', 'etc/localtime']
    """
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*files, *links, *_folders(files), *_folders(links)}):
            member = tarfile.TarInfo(path)
            member.mtime = EPOCH_S
            if path in files:
                data = files[path]
                member.size, member.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
                archive.addfile(member, io.BytesIO(data))
                continue
            if path in links:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, links[path], 0o777
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
    return made.getvalue()


def _folders(paths: Mapping[str, object]) -> set[str]:
    parts = [path.split("/") for path in paths]
    return {"/".join(names[:depth]) for names in parts for depth in range(1, len(names))}
