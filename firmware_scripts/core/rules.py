"""The rules that refuse a target, by name. The meaning of a name never changes: scripts and reports use the names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """Why a target is refused; each comment names what the rule protects or detects."""

    HOLDS_ROOT = "holds-root"  # the running system
    HOLDS_BOOT = "holds-boot"  # what the next boot needs
    MOUNTED = "mounted"  # files that may be open
    SWAP = "swap"  # memory
    HELD_BY_CRYPT = "held-by-crypt"  # an opened encrypted volume
    HELD_BY_LVM = "held-by-lvm"
    HELD_BY_MD = "held-by-md"
    HELD_BY_MULTIPATH = "held-by-multipath"
    HELD_BY_BCACHE = "held-by-bcache"
    HELD_BY_OTHER = "held-by-other"  # a device of an unknown type is built on it
    PART_OF_POOL = "part-of-pool"  # one disk of several, not in use at the moment
    ROOT_UNKNOWN = "root-unknown"  # any disk may hold the running system
    MOUNT_UNKNOWN = "mount-unknown"  # any disk may hold these files
    SWAP_UNKNOWN = "swap-unknown"  # any disk may hold memory
    IS_PARTITION = "is-partition"  # an image holds a partition table: it belongs on the whole disk
    IS_MAPPED = "is-mapped"  # built on other devices
    IS_LOOP = "is-loop"  # a file presented as a disk
    IS_OPTICAL = "is-optical"
    IS_VIRTUAL = "is-virtual"  # memory presented as a disk
    IS_NETWORK = "is-network"  # a disk of another machine
    IS_EMMC_BOOT = "is-emmc-boot"  # the boot areas of an eMMC hold no images
    UNKNOWN_KIND = "unknown-kind"
    UNKNOWN_FACT = "unknown-fact"  # lsblk did not report a fact that a rule needs
    NO_MEDIUM = "no-medium"  # a reader without a card
    READ_ONLY = "read-only"
    TOO_LARGE = "too-large"  # backup disks, arrays
    NOT_REMOVABLE = "not-removable"  # built-in disks, USB disks with people's files
    OFFLINE = "offline"
    NOT_LISTED = "not-listed"  # the path is no disk of this machine
    TOO_SMALL = "too-small"
    SECTOR_SIZE = "sector-size"  # the image's partition table counts in other sectors than the disk has
    BUSY = "busy"  # the kernel reports that it is in use
    NO_PERMISSION = "no-permission"
    CHANGED = "changed"  # it is not the device that was confirmed
    NOT_A_TARGET = "not-a-target"  # a folder, a terminal, the image itself


# Only the rules that a person can judge better. A disk that is in use can never be allowed.
CAN_BE_ALLOWED = frozenset({Rule.TOO_LARGE, Rule.NOT_REMOVABLE, Rule.IS_LOOP, Rule.PART_OF_POOL, Rule.SECTOR_SIZE})


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that refuses a target, and a text for people: what was found and what to do."""

    rule: Rule
    text: str
