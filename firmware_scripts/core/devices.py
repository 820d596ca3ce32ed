"""The block devices of a machine as a graph, parsed from the output of ``lsblk -J -b -O``.

Versions of lsblk differ (numbers as text, ``mountpoint`` or ``mountpoints``, shared children repeated or not); this
module only normalises the differences. A fact that is missing or of the wrong type is unknown: ``None`` or empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nightjar.wire.errors import RemoteProtocolError

MAX_DEVICES = 20_000
_PARTITION = re.compile(r"/dev/(?:((?:sd|vd|xvd|hd)[a-z]+)\d*|((?:mmcblk\d+|nvme\d+n\d+|nbd\d+|loop\d+))(?:p\d+)?)")


@dataclass(frozen=True, slots=True)
class StorageDevice:
    """One block device."""

    name: str  # the kernel's name, such as ``sdb1``; unique on a machine
    path: str  # its device node, such as ``/dev/sdb1`` or ``/dev/mapper/root``
    number: str  # ``major:minor``
    kind: str  # lsblk's type: disk, part, loop, rom, crypt, lvm, raid1, mpath ...
    size_bytes: int | None  # 0 for a reader without a card
    removable: bool | None  # the kernel's flag for a removable medium
    hotplug: bool | None  # lsblk's flag for a hot-pluggable port
    sector_bytes: int | None  # the logical sector, in which partition tables count
    read_only: bool | None  # whether it is write-protected, by a switch or by the device itself
    transport: str  # usb, sata, nvme, mmc, iscsi ...
    subsystems: str  # the kernel's chain of subsystems, such as ``block:scsi:usb:pci``
    model: str
    vendor: str
    serial: str
    wwn: str
    state: str  # the state of the SCSI or NVMe device
    sequence: str  # the kernel's media sequence number, if lsblk reports it; it changes when the card is swapped
    file_system: str
    label: str
    uuid: str
    partition_uuid: str
    mount_points: tuple[str, ...]
    parents: tuple[str, ...]  # names of the devices it is built on: the disk of a partition, the members of an array


@dataclass(frozen=True, slots=True)
class BlockDevices:
    """All block devices of a machine, by name, in no guaranteed order of parents and children."""

    by_name: Mapping[str, StorageDevice]

    def whole(self) -> tuple[StorageDevice, ...]:
        """The devices with no parents (disks, loop devices, drives), in lsblk's order."""
        return tuple(device for device in self.by_name.values() if not device.parents)

    def under(self, name: str) -> frozenset[str]:
        """``name`` and everything that it is built on, down to the disks."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current not in seen and current in self.by_name:
                seen.add(current)
                waiting.extend(self.by_name[current].parents)
        return frozenset(seen)

    def numbered(self, number: str) -> StorageDevice | None:
        """The device with this ``major:minor``."""
        return next((device for device in self.by_name.values() if device.number == number), None)

    def named(self, source: str) -> StorageDevice | None:
        """The device that a path such as ``/dev/sda1`` or ``/dev/disk/by-uuid/...`` refers to."""
        folder, _, last = source.rpartition("/")
        for device in self.by_name.values():
            known = {
                "/dev/disk/by-uuid": device.uuid,
                "/dev/disk/by-label": device.label,
                "/dev/disk/by-partuuid": device.partition_uuid,
            }.get(folder)
            if source == device.path or source == f"/dev/{device.name}" or (known and known == last):
                return device
        return None


def partition_of(source: str) -> str | None:
    """The name of the disk that the path of a disk or partition belongs to; None for any other path.

    >>> partition_of("/dev/mmcblk0p2"), partition_of("/dev/sdb1"), partition_of("/dev/mapper/root")
    ('mmcblk0', 'sdb', None)
    """
    match = _PARTITION.fullmatch(source)
    return (match[1] or match[2]) if match else None


def parse_lsblk(text: str) -> BlockDevices:
    """Parse the output of ``lsblk -J -b -O``.

    Raises:
        RemoteProtocolError: the text is not valid lsblk output, or lists more than :data:`MAX_DEVICES` devices.
    """
    try:
        top = json.loads(text)["blockdevices"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = f"lsblk: expected the JSON of 'lsblk -J -b -O', got something else: {error!r:.120}"
        raise RemoteProtocolError(msg, code="lsblk") from error
    if not isinstance(top, list):
        msg = "lsblk: 'blockdevices' is not a list"
        raise RemoteProtocolError(msg, code="lsblk")
    devices: dict[str, StorageDevice] = {}
    for count, (raw, parent) in enumerate(_walk(top)):
        if count >= MAX_DEVICES:
            msg = f"lsblk: more than {MAX_DEVICES} devices"
            raise RemoteProtocolError(msg, code="lsblk")
        device = _device(raw, parent)
        # A shared child (an array, say) is printed once under each of its members.
        if earlier := devices.get(device.name):
            device = replace(
                earlier,
                parents=tuple(dict.fromkeys(earlier.parents + device.parents)),
                mount_points=tuple(dict.fromkeys(earlier.mount_points + device.mount_points)),
            )
        devices[device.name] = device
    return BlockDevices(devices)


def _walk(top: list[object]) -> Iterator[tuple[dict[str, object], str]]:
    waiting: list[tuple[object, str]] = [(raw, "") for raw in reversed(top)]
    while waiting:
        raw, parent = waiting.pop()
        if not isinstance(raw, dict) or not _text(raw, "kname", "name"):
            msg = f"lsblk: expected a device with a name, got {raw!r:.120}"
            raise RemoteProtocolError(msg, code="lsblk")
        yield raw, parent
        children = raw.get("children") or []
        if not isinstance(children, list):
            msg = "lsblk: 'children' is not a list"
            raise RemoteProtocolError(msg, code="lsblk")
        waiting.extend((child, _text(raw, "kname", "name")) for child in reversed(children))


def _device(raw: dict[str, object], parent: str) -> StorageDevice:
    name = _text(raw, "kname", "name")
    points = raw.get("mountpoints", [raw.get("mountpoint")])
    return StorageDevice(
        name=name,
        path=_text(raw, "path") or f"/dev/{name}",
        number=_text(raw, "maj:min").replace(" ", ""),
        kind=_text(raw, "type"),
        size_bytes=_whole_number(raw.get("size")),
        removable=_flag(raw.get("rm")),
        hotplug=_flag(raw.get("hotplug")),
        sector_bytes=_whole_number(raw.get("log-sec")),
        read_only=_flag(raw.get("ro")),
        transport=_text(raw, "tran").lower(),
        subsystems=_text(raw, "subsystems"),
        model=_text(raw, "model"),
        vendor=_text(raw, "vendor"),
        serial=_text(raw, "serial"),
        wwn=_text(raw, "wwn"),
        state=_text(raw, "state"),
        sequence=str(_whole_number(raw.get("disk-seq")) or ""),
        file_system=_text(raw, "fstype"),
        label=_text(raw, "label"),
        uuid=_text(raw, "uuid"),
        partition_uuid=_text(raw, "partuuid"),
        mount_points=tuple(p for p in (points if isinstance(points, list) else [points]) if p and isinstance(p, str)),
        # Nested output shows the parent by nesting, flat output (lsblk -l) by pkname.
        parents=tuple(dict.fromkeys(p for p in (parent, _text(raw, "pkname")) if p)),
    )


def _text(raw: dict[str, object], *keys: str) -> str:
    for key in keys:
        if isinstance(value := raw.get(key), str) and value.strip():
            return value.strip()
    return ""


def _flag(value: object) -> bool | None:
    # lsblk printed "0" and "1" before util-linux 2.33.
    return {"0": False, "1": True}.get(value) if isinstance(value, str) else value if isinstance(value, bool) else None


def _whole_number(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
