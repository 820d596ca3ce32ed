"""Detects how the system on a card takes its settings, from the card's own files and never by guessing.

An image silently ignores settings in a form that it does not know: the device comes up with no user and no network. So
an image is refused if its form cannot be detected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nightjar.wire.errors import ConfigError

IMAGE_FILE, OWN_FORMAT = "nightjar/image.json", "nightjar-1"
"""The file that marks an image of ours, and its format."""
TELLING = ("issue.txt", "cmdline.txt", IMAGE_FILE, "user-data")
"""The files whose text :func:`detect` needs."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture -> the kernel's."""
_CLOUD_INIT_FILES = ("user-data", "meta-data")
# pi-gen writes this line, such as "Raspberry Pi reference 2023-12-05".
_ISSUE = re.compile(r"Raspberry Pi reference (\d{4}-\d{2}-\d{2})")
HEAD_BYTES = 8192
"""How much of an image :func:`sector_sizes` needs."""
_SECTOR_SIZES = (512, 1024, 2048, 4096)
_BOOKWORM, _TRIXIE = "2023-10-10", "2025-10-01"


class ImageFormat(StrEnum):
    """The ways in which a system takes its settings at the first boot."""

    CLOUD_INIT = "cloud-init"
    """Raspberry Pi OS trixie and later: user-data, meta-data, network-config."""
    FIRSTRUN = "firstrun"
    """Raspberry Pi OS bookworm: a script named on the kernel's command line."""
    NIGHTJAR = "nightjar"
    """Our own images: the bookworm script, which the image finds without the command line."""


@dataclass(frozen=True, slots=True)
class Detected:
    """A detected format, the evidence in words, and the platform that a bundle must match; None if unknown."""

    format: ImageFormat
    because: str
    platform: str | None = None


def detect(names: Collection[str], texts: Mapping[str, str]) -> Detected:
    """Detect the format of the image that a boot partition belongs to.

    ``names`` are the files at the partition's root, ``texts`` the text of each file in :data:`TELLING` that exists.

    Raises:
        ConfigError: the format cannot be detected or used; the message says why.

    >>> detect(["user-data", "meta-data", "cmdline.txt"], {}).format
    <ImageFormat.CLOUD_INIT: 'cloud-init'>
    """
    if IMAGE_FILE in texts:
        return _own(texts[IMAGE_FILE])
    there = {name.lower() for name in names}
    issue = _ISSUE.search(texts.get("issue.txt", ""))
    if there.issuperset(_CLOUD_INIT_FILES):
        platform = "trixie-aarch64" if issue and issue[1] >= _TRIXIE else None
        return Detected(ImageFormat.CLOUD_INIT, "user-data and meta-data are on its boot partition", platform)
    if issue is None or "cmdline.txt" not in there:
        msg = (
            "it cannot be told how this image takes its settings: expected user-data and meta-data (Raspberry Pi OS "
            f"trixie), issue.txt and cmdline.txt (bookworm) or {IMAGE_FILE} (our own) on its boot partition, found "
            f"{', '.join(sorted(there)[:12]) or 'nothing'}"
        )
        raise ConfigError(msg)
    date = issue[1]
    if date < _BOOKWORM:
        msg = f"this is Raspberry Pi OS of {date}, before bookworm, which has no Python for the agent: take a newer one"
        raise ConfigError(msg)
    if date >= _TRIXIE:
        msg = (
            f"this is Raspberry Pi OS of {date}, which takes cloud-init's files, but they were removed from it: write "
            "the card again"
        )
        raise ConfigError(msg)
    because = f"issue.txt says that it is Raspberry Pi OS of {date}, which is bookworm"
    return Detected(ImageFormat.FIRSTRUN, because, "bookworm-aarch64")


def has_partition_table(sector: bytes) -> bool:
    """Whether the first sector of a disk holds an MBR with a partition; a GPT has one, too, that covers the disk.

    >>> has_partition_table(bytes(512))
    False
    """
    entries = [sector[at : at + 16] for at in range(446, 510, 16)]
    return (
        sector[510:512] == b"\x55\xaa"
        and all(entry[0] in {0x00, 0x80} for entry in entries)
        and any(entry[4] and any(entry[12:16]) for entry in entries)
    )


def sector_sizes(head: bytes) -> frozenset[int]:
    """The sizes of sectors, in bytes, that the partition table in the first 8 KiB of an image is for.

    A GPT lies in the second sector, wherever that begins; an MBR alone counts in sectors of 512 bytes, as all published
    images do. Empty if there is no partition table.

    >>> sorted(sector_sizes(bytes(4096) + b"EFI PART"))
    [4096]
    """
    found = {size for size in _SECTOR_SIZES if head[size : size + 8] == b"EFI PART"}
    return frozenset(found or ({512} if has_partition_table(head[:512]) else ()))


def _own(text: str) -> Detected:
    try:
        mark = json.loads(text)
        name = mark["format"] if isinstance(mark, dict) else None
    except (ValueError, KeyError, RecursionError):
        name = None
    if name != OWN_FORMAT:
        shown = repr(str(name)[:40])
        msg = f"{IMAGE_FILE} says format {shown}, this program knows {OWN_FORMAT!r}: take the program that made it"
        raise ConfigError(msg)
    machine = MACHINES.get(str(mark.get("architecture")))
    platform = f"{mark['release']}-{machine}" if machine and isinstance(mark.get("release"), str) else None
    return Detected(ImageFormat.NIGHTJAR, f"{IMAGE_FILE} says {OWN_FORMAT}", platform)
