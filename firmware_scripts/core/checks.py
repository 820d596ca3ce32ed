"""The checks of ``doctor``: one finding per requirement of a command, with a remedy if the requirement is not met."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol


class Level(StrEnum):
    """How much a finding matters."""

    GOOD = "good"
    NOTE = "note"  # something optional is missing
    FAULT = "fault"  # a command will fail


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``doctor``."""

    category: str  # the area it belongs to, such as flashing, desktop, images or twin
    level: Level
    text: str
    remedy: str = ""  # what to do about it; empty if nothing is needed
    packages: str = ""  # the Debian packages that are missing, separated by spaces
    needed_by: frozenset[str] = frozenset()  # the commands that cannot run without them


class Host(Protocol):
    """The facts about this machine that a check can query. No method raises."""

    def has_command(self, name: str) -> bool:
        """Whether a program is on the path or in the system administrator's program folders."""

    def output(self, *command: str) -> str:
        """The output of a program; empty if it could not be run."""

    def has_module(self, name: str) -> bool:
        """Whether Python can import a module."""

    def is_root(self) -> bool:
        """Whether this process runs as root."""

    def groups(self) -> frozenset[str]:
        """The names of the groups that this user belongs to."""


def findings(host: Host, commands: Collection[str] = ()) -> tuple[Finding, ...]:
    """All findings, by category; what one of these commands cannot run without is a fault."""
    found = (finding for check in _CHECKS for finding in check(host))
    return tuple(replace(f, level=Level.FAULT) if f.needed_by.intersection(commands) else f for f in found)


def install_line(found: Sequence[Finding]) -> str:
    """One command that installs every missing package; empty if none is missing.

    >>> install_line([Finding("twin", Level.NOTE, "", packages="b a"), Finding("images", Level.NOTE, "", packages="a")])
    'sudo apt install a b'
    """
    packages = sorted({package for finding in found for package in finding.packages.split()})
    return f"sudo apt install {' '.join(packages)}" if packages else ""


def check_listing(host: Host) -> Iterator[Finding]:
    """Whether lsblk can print JSON with all columns, which is needed to tell disks apart."""
    found = re.search(r"util-linux (\d+)\.(\d+)", host.output("lsblk", "--version"))
    if not found:
        remedy = "apt install util-linux; other systems: use a Linux"
        yield Finding("flashing", Level.FAULT, "lsblk is missing", remedy, "util-linux")
    elif (int(found[1]), int(found[2])) < (2, 31):
        text = f"lsblk {found[1]}.{found[2]} does not list all that is needed"
        yield Finding("flashing", Level.FAULT, text, "use util-linux 2.31 or newer")
    else:
        yield Finding("flashing", Level.GOOD, f"lsblk {found[1]}.{found[2]} lists the disks")


def check_permission(host: Host) -> Iterator[Finding]:
    """Whether this user may write to disks at all."""
    if host.is_root():
        yield Finding("flashing", Level.GOOD, "root may write to disks, and read them back past the cache")
    elif "disk" in host.groups():
        text = "the group 'disk' may write to disks, but not empty their cache: a bad card may read back well"
        yield Finding("flashing", Level.NOTE, text, "run flash and verify with sudo")
    else:
        text = "this user may not write to disks; files and --dry-run work"
        yield Finding("flashing", Level.NOTE, text, "run flash with sudo")


def check_packings(host: Host) -> Iterator[Finding]:
    """Which compressed images can be read. Python may have been built without one of the standard modules."""
    for module, name, remedy in (
        ("lzma", ".img.xz", "apt install liblzma-dev and build Python again, or use the system's Python"),
        ("zlib", ".img.gz", "use the system's Python"),
        ("backports.zstd", ".img.zst", "pip install backports.zstd"),
    ):
        if host.has_module(module):
            yield Finding("flashing", Level.GOOD, f"{name} images can be read")
        else:
            yield Finding("flashing", Level.FAULT, f"{name} images cannot be read ({module} is missing)", remedy)


def check_desktop(host: Host) -> Iterator[Finding]:
    """Whether the desktop mounts cards automatically.

    A mounted card is refused until it is unmounted, and mounting it changes its contents.
    """
    settings = ("gsettings", "get", "org.gnome.desktop.media-handling", "automount")
    if host.output(*settings).strip() == "true":
        text = "the desktop mounts cards when they are plugged in: they are refused until they are unmounted"
        remedy = "gsettings set org.gnome.desktop.media-handling automount false"
        yield Finding("desktop", Level.NOTE, text, remedy)
    elif host.output("systemctl", "is-active", "udisks2").strip() == "active":
        text = "udisks runs: a file manager may mount cards when they are plugged in"
        yield Finding("desktop", Level.NOTE, text, "unmount a card in the file manager before it is flashed")
    else:
        yield Finding("desktop", Level.GOOD, "nothing seen that mounts cards by itself")


# (category, program, what it is for, its Debian packages, the commands that cannot run without it)
_PROGRAMS = (
    ("images", "mcopy", "files of a boot partition can be read and written", "mtools", "customise image"),
    ("images", "mkfs.vfat", "boot partitions can be made", "dosfstools", "image"),
    ("images", "mke2fs", "root file systems can be made", "e2fsprogs", "image"),
    ("images", "sfdisk", "partition tables can be read and made", "fdisk", "customise image"),
    ("images", "fakeroot", "files in images keep their owners", "fakeroot", "image"),
    ("images", "mmdebstrap", "images can be made from Debian's packages", "mmdebstrap uidmap", "image"),
    ("customising", "cloud-init", "user-data is checked by cloud-init itself, beside our own check", "cloud-init", ""),
    ("customising", "mkpasswd", "passwords can be hashed for --password-hash", "whois", ""),
    ("customising", "ssh-keygen", "SSH keys can be made for --ssh-key", "openssh-client", ""),
    ("android", "adb", "phones on a cable can be reached", "adb", "android"),
    ("twin", "qemu-system-aarch64", "an ARM device can be run without a device", "qemu-system-arm", "twin"),
    ("twin", "qemu-system-x86_64", "a PC can be run as a device", "qemu-system-x86", "twin"),
    ("twin", "qemu-aarch64-static", "programs of a device can be run here", "qemu-user-static", ""),
    ("twin", "arch-test", "images for another architecture can be made", "arch-test", ""),
)


def check_programs(host: Host) -> Iterator[Finding]:
    """Programs that inspect and build images without root, check settings, reach phones and emulate devices."""
    for category, name, text, packages, needed_by in _PROGRAMS:
        if host.has_command(name):
            yield Finding(category, Level.GOOD, f"{text} ({name})")
        else:
            missing, remedy = f"{name} is missing: {text} once it is there", f"apt install {packages}"
            yield Finding(category, Level.NOTE, missing, remedy, packages, frozenset(needed_by.split()))


_CHECKS = (check_listing, check_permission, check_packings, check_desktop, check_programs)
