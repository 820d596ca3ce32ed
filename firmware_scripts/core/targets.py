"""Decides which disks may be written to, and why the others may not.

The verdict depends only on three recordings: lsblk's JSON, mountinfo and swaps (:class:`MachineState`), so any machine
can be replayed as a test. There are three steps: every mount, swap and holder *claims* a device; a claim applies to all
disks under the device; then each disk is judged by its own facts. An unknown fact refuses the disk.

Not decided here: whether the kernel lets us open the disk (``busy``) and whether it is still the confirmed one. The
writer finds out when it opens the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nightjar.firmware_scripts.core.devices import BlockDevices, StorageDevice, parse_lsblk, partition_of
from nightjar.firmware_scripts.core.mounts import Mount, Swap, containing, parse_mountinfo, parse_swaps
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.host.sizes import size_text

# The most that a disk sold as 256 GB holds (the IDEMA formula): the largest cards in common use. Disks with people's
# files are usually larger.
SIZE_CEILING_BYTES = 256_060_514_304

BOOT_POINTS = frozenset({"/boot", "/boot/efi", "/boot/firmware", "/efi", "/esp"})
"""Where a machine's own boot partition is mounted; some systems mount it only on access (autofs)."""
# Where live systems mount the medium that they run from.
_LIVE_POINTS = frozenset(
    {
        "/cdrom",
        "/isodevice",
        "/lib/live/mount/medium",
        "/lib/live/mount/findiso",
        "/lib/live/mount/persistence",
        "/live/image",
        "/mnt/cdrom",
        "/run/archiso/bootmnt",
        "/run/initramfs/isoscan",
        "/run/initramfs/live",
        "/run/initramfs/memory/data",
        "/run/live/findiso",
        "/run/live/medium",
        "/run/overlay/live",
        "/run/miso/bootmnt",
    }
)
# Root file systems that are on no disk of this machine: on the network, or on raw flash.
_DISKLESS = frozenset({"nfs", "nfs4", "ubifs", "jffs2"})
_POOL_MEMBERS = {
    "LVM2_member": "LVM",
    "linux_raid_member": "an md array",
    "zfs_member": "a ZFS pool",
    "bcache": "bcache",
    "mpath_member": "multipath",
    "ddf_raid_member": "a hardware-like RAID",
    "isw_raid_member": "an Intel RAID",
    "ceph_bluestore": "Ceph",
    "drbd": "DRBD",
    "jbd": "an ext4 file system, as its journal,",
    "xfs_external_log": "an XFS file system, as its log,",
    "VMFS_volume_member": "VMFS",
}
_SPANNING = frozenset({"btrfs", "bcachefs"})
"""File systems that can span several disks without LVM or RAID."""
_HOLDERS = {
    "crypt": (Rule.HELD_BY_CRYPT, "an opened encrypted volume"),
    "lvm": (Rule.HELD_BY_LVM, "an LVM volume"),
    "mpath": (Rule.HELD_BY_MULTIPATH, "a multipath device"),
    "md": (Rule.HELD_BY_MD, "an md array"),
    "linear": (Rule.HELD_BY_MD, "an md array"),
}
_VIRTUAL = re.compile(r"zram\d+|ram\d+|pmem\d.*|brd\d+")
_NETWORK = re.compile(r"nbd\d+|rbd\d+|drbd\d+|etherd.*")
_NETWORK_TRANSPORTS = frozenset({"iscsi", "fc", "fcoe", "srp", "aoe", "tcp", "rdma"})
_RUNNING_STATES = frozenset({"", "running", "live"})


@dataclass(frozen=True, slots=True)
class MachineState:
    """A snapshot of a machine's devices, mounts and swaps."""

    devices: BlockDevices
    mounts: tuple[Mount, ...]
    swaps: tuple[Swap, ...]


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """A device and every reason to refuse it; with no reasons, it may be written to once it is confirmed."""

    device: StorageDevice
    reasons: tuple[Reason, ...]

    @property
    def allowed(self) -> bool:
        """Whether there is no reason to refuse it."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class _Claim:
    device: str
    reason: Reason


def parse_machine(lsblk: str, mountinfo: str, swaps: str) -> MachineState:
    """Parse the three recordings of a machine.

    Raises:
        RemoteProtocolError: one of the recordings is malformed.
    """
    return MachineState(parse_lsblk(lsblk), parse_mountinfo(mountinfo), parse_swaps(swaps))


def judge_all(machine: MachineState) -> tuple[TargetVerdict, ...]:
    """A verdict for every disk, in lsblk's order."""
    return _verdicts(machine, machine.devices.whole(), SIZE_CEILING_BYTES)


def judge(machine: MachineState, device: StorageDevice, ceiling_bytes: int = SIZE_CEILING_BYTES) -> TargetVerdict:
    """The verdict for one device, which may be a partition named by mistake."""
    return _verdicts(machine, (device,), ceiling_bytes)[0]


def _verdicts(
    machine: MachineState, devices: tuple[StorageDevice, ...], ceiling_bytes: int
) -> tuple[TargetVerdict, ...]:
    common = tuple(_about_the_machine(machine))
    claimed: dict[str, list[Reason]] = {}
    for claim in _claims(machine):
        for name in machine.devices.under(claim.device):
            claimed.setdefault(name, []).append(claim.reason)
    return tuple(
        TargetVerdict(
            device,
            tuple(
                dict.fromkeys(
                    (*common, *claimed.get(device.name, []), *_about_the_device(machine, device, ceiling_bytes))
                )
            ),
        )
        for device in devices
    )


# ---- claims: what the system uses ------------------------------------------------------------------------------------


def _claims(machine: MachineState) -> Iterator[_Claim]:
    for mount in machine.mounts:
        for device in _devices_of(machine, mount):
            yield _Claim(device.name, _mounted(device, mount.point))
    for medium in _live_media(machine):
        text = f"this system runs from {_name(medium)} (a live system)"
        yield _Claim(medium.name, Reason(Rule.HOLDS_ROOT, text))
    for device in machine.devices.by_name.values():
        for point in device.mount_points:
            text = f"{_name(device)} is used as swap: swapoff {_path(device)}"
            yield _Claim(device.name, Reason(Rule.SWAP, text) if point == "[SWAP]" else _mounted(device, point))
    for swap in machine.swaps:
        for device in _devices_of_swap(machine, swap):
            text = f"{_name(device)} is used as swap ({printable(swap.path)}): swapoff {printable(swap.path)}"
            yield _Claim(device.name, Reason(Rule.SWAP, text))
    yield from _holders(machine.devices)
    for device in machine.devices.by_name.values():
        if pool := _POOL_MEMBERS.get(device.file_system):
            text = f"{_name(device)} is one part of {pool} that may have others: wipefs it first if it is not"
            yield _Claim(device.name, Reason(Rule.PART_OF_POOL, text))
        if others := _elsewhere(machine.devices, device):
            text = f"{_name(device)} has the UUID of {', '.join(others)}: one file system on several disks, or a copy"
            yield _Claim(device.name, Reason(Rule.PART_OF_POOL, text))


def _elsewhere(devices: BlockDevices, device: StorageDevice) -> list[str]:
    """Devices on other disks that belong to the same disk-spanning file system."""
    if device.file_system not in _SPANNING or not device.uuid:
        return []
    ours = devices.under(device.name)
    return [
        _name(other)
        for other in devices.by_name.values()
        if (other.file_system, other.uuid) == (device.file_system, device.uuid) and not ours & devices.under(other.name)
    ]


def _mounted(device: StorageDevice, point: str) -> Reason:
    where = printable(point)
    if point == "/":
        return Reason(Rule.HOLDS_ROOT, f"{_name(device)} holds the running system (mounted at /)")
    if point in BOOT_POINTS:
        return Reason(Rule.HOLDS_BOOT, f"{_name(device)} is mounted at {where}: this machine starts from it")
    text = f"{_name(device)} is mounted at {where}: unmount it (umount, or 'eject' in the file manager)"
    return Reason(Rule.MOUNTED, text)


def _holders(devices: BlockDevices) -> Iterator[_Claim]:
    for device in devices.by_name.values():
        # kpartx creates "partitions" with the device mapper, and those do hold their disk.
        if not device.parents or (device.kind == "part" and not device.name.startswith("dm-")):
            continue
        rule, what = _HOLDERS.get(
            device.kind, (Rule.HELD_BY_OTHER, f"a device of type {printable(device.kind) or '?'}")
        )
        if device.kind.startswith("raid") or device.name.startswith("md"):
            rule, what = _HOLDERS["md"]
        elif device.name.startswith("bcache"):
            rule, what = Rule.HELD_BY_BCACHE, "bcache"
        reason = Reason(rule, f"{what} ({_path(device)}) is built on it: close or stop that first")
        for parent in device.parents:
            yield _Claim(parent, reason)


def _devices_of(machine: MachineState, mount: Mount) -> tuple[StorageDevice, ...]:
    """The devices that a mounted file system lies on, as far as they can be determined."""
    devices = machine.devices
    if direct := devices.numbered(mount.number):
        devices_found = [direct]
    elif mount.file_system == "zfs":
        pool = mount.source.partition("/")[0]
        return tuple(d for d in devices.by_name.values() if d.file_system == "zfs_member" and d.label == pool)
    else:
        # btrfs and bcachefs have virtual device numbers; bcachefs separates its devices with colons.
        devices_found = [d for source in mount.source.split(":") if (d := _named(devices, source))]
    shared = {(d.file_system, d.uuid) for d in devices_found if d.uuid and d.file_system in _SPANNING}
    others = [d for d in devices.by_name.values() if (d.file_system, d.uuid) in shared and d not in devices_found]
    return (*devices_found, *others)


def _named(devices: BlockDevices, source: str) -> StorageDevice | None:
    if not source.startswith("/dev/"):
        return None
    # A partition created after lsblk ran can still be traced to its disk by name.
    return devices.named(source) or devices.by_name.get(partition_of(source) or "")


def _devices_of_swap(machine: MachineState, swap: Swap) -> tuple[StorageDevice, ...]:
    if not swap.is_file:
        device = _named(machine.devices, swap.path)
        return (device,) if device else ()
    mount = containing(machine.mounts, swap.path)
    return _ground(machine, mount) if mount else ()


# ---- what the root file system stands on -----------------------------------------------------------------------------


def _ground(machine: MachineState, mount: Mount) -> tuple[StorageDevice, ...]:
    """The devices under a mount, which may be an overlay over other mounts."""
    if mount.file_system != "overlay":
        return _devices_of(machine, mount)
    devices: list[StorageDevice] = []
    for option in mount.options.split(","):
        key, _, paths = option.partition("=")
        if key in {"lowerdir", "upperdir", "lowerdir+", "datadir+"}:
            for path in paths.split(":"):
                below = containing(machine.mounts, path)
                # A path that seems to lie on the overlay itself dates from before the overlay was mounted.
                if below and below.file_system != "overlay":
                    devices += _devices_of(machine, below)
    return tuple(dict.fromkeys(devices))


def _root(machine: MachineState) -> Mount | None:
    return next((mount for mount in reversed(machine.mounts) if mount.point == "/"), None)


def _on_disks(machine: MachineState, ground: tuple[StorageDevice, ...]) -> bool:
    """Whether some of these devices lie on a real disk, not on a loop device whose file may be anywhere."""
    bottoms = [machine.devices.by_name[name] for device in ground for name in machine.devices.under(device.name)]
    return any(not d.parents and d.kind != "loop" and not _VIRTUAL.fullmatch(d.name) for d in bottoms)


def _live_media(machine: MachineState) -> tuple[StorageDevice, ...]:
    """The devices that the running system lies on if its root is an overlay or a loop device."""
    root = _root(machine)
    if root is None:
        return ()
    ground = _ground(machine, root)
    media = list(ground) if root.file_system == "overlay" else []
    if not _on_disks(machine, ground):
        for mount in machine.mounts:
            if mount.point in _LIVE_POINTS:
                media += _devices_of(machine, mount)
    return tuple(dict.fromkeys(media))


def _about_the_machine(machine: MachineState) -> Iterator[Reason]:
    root = _root(machine)
    if root is None or not (
        root.file_system in _DISKLESS
        or _on_disks(machine, _ground(machine, root))
        or _on_disks(machine, _live_media(machine))
    ):
        kind = printable(root.file_system) if root else "nothing"
        text = (
            f"no disk could be found that holds the running system (/ is {kind}), so it may be any: "
            "run this outside a container, or from an installed system"
        )
        yield Reason(Rule.ROOT_UNKNOWN, text)
    for mount in machine.mounts:
        # Major numbers from 1 up belong to block devices. If the device is neither listed nor named like a disk, it may
        # lie on any disk.
        if not mount.number.startswith("0:") and not (_devices_of(machine, mount) or partition_of(mount.source)):
            text = (
                f"no disk could be found that holds {printable(mount.point)} ({printable(mount.source)}), "
                "so it may be any: unmount it"
            )
            yield Reason(Rule.MOUNT_UNKNOWN, text)
    for point in sorted(BOOT_POINTS):
        at_it = [mount.file_system for mount in machine.mounts if mount.point == point]
        if at_it[-1:] == ["autofs"]:
            text = f"{point} is mounted only while somebody looks into it, so any disk may be behind it: ls {point}"
            yield Reason(Rule.MOUNT_UNKNOWN, text)
    for swap in machine.swaps:
        in_memory = _VIRTUAL.fullmatch(swap.path.removeprefix("/dev/"))
        if not in_memory and not _devices_of_swap(machine, swap):
            text = f"no disk could be found that holds the swap {printable(swap.path)}, so it may be any: swapoff it"
            yield Reason(Rule.SWAP_UNKNOWN, text)


# ---- the device's own facts ------------------------------------------------------------------------------------------


def _about_the_device(machine: MachineState, device: StorageDevice, ceiling_bytes: int) -> Iterator[Reason]:
    yield from _by_kind(device)
    if re.fullmatch(r"mmcblk\d+(boot\d+|rpmb|gp\d+)", device.name):
        yield Reason(Rule.IS_EMMC_BOOT, "it is a boot or special area of an eMMC, not a disk")
    match device.size_bytes:
        case None:
            yield Reason(Rule.UNKNOWN_FACT, "lsblk did not say its size")
        case 0:
            yield Reason(Rule.NO_MEDIUM, "the reader holds no card, or the card is not recognised")
        case size if size > ceiling_bytes:
            text = f"it holds {size_text(size)}, more than the {size_text(ceiling_bytes)} of the largest usual card"
            yield Reason(Rule.TOO_LARGE, text)
    match device.read_only:
        case None:
            yield Reason(Rule.UNKNOWN_FACT, "lsblk did not say whether it can be written to")
        case True:
            yield Reason(Rule.READ_ONLY, "it is read-only: look for the switch on the card or its adapter")
        case False:
            pass
    if device.state not in _RUNNING_STATES:
        yield Reason(Rule.OFFLINE, f"its state is {printable(device.state)!r}: plug it in again")
    if device.kind == "disk":
        yield from _by_removability(machine, device)


def _by_kind(device: StorageDevice) -> Iterator[Reason]:
    match device.kind:
        case "disk" if _VIRTUAL.fullmatch(device.name):
            yield Reason(Rule.IS_VIRTUAL, "it is memory of this machine, not a disk")
        case "disk" if _NETWORK.fullmatch(device.name) or device.transport in _NETWORK_TRANSPORTS:
            yield Reason(Rule.IS_NETWORK, "it is a disk on the network")
        case "disk" if not device.parents:
            pass
        case "part":
            parent = printable(device.parents[0]) if device.parents else "its disk"
            yield Reason(Rule.IS_PARTITION, f"it is a partition: an image belongs on the whole disk ({parent})")
        case "loop":
            yield Reason(Rule.IS_LOOP, "it is a loop device: give the file itself as the target")
        case "rom":
            yield Reason(Rule.IS_OPTICAL, "it is an optical drive")
        case "":
            yield Reason(Rule.UNKNOWN_KIND, "lsblk did not say what kind of device it is")
        case kind if device.parents:
            yield Reason(Rule.IS_MAPPED, f"it is made of other devices (type {printable(kind)})")
        case kind:
            yield Reason(Rule.UNKNOWN_KIND, f"devices of type {printable(kind)} are not known here")


def _by_removability(machine: MachineState, device: StorageDevice) -> Iterator[Reason]:
    """Refuse everything but cards and sticks: USB with a removable medium, or an SD slot.

    The kernel's removable flag alone errs in both directions.
    """
    if device.name.startswith("mmcblk"):
        if f"{device.name}boot0" in machine.devices.by_name:
            yield Reason(Rule.NOT_REMOVABLE, "it is a soldered eMMC (it has boot areas), not a card")
        elif not (device.removable or device.hotplug):
            yield Reason(Rule.NOT_REMOVABLE, "neither lsblk's rm nor its hotplug says that it can be taken out")
        return
    usb = device.transport == "usb" or "usb" in device.subsystems.split(":")
    if usb and device.removable:
        return
    if usb:
        text = "it is a USB disk with a fixed medium (a hard disk or SSD, not a card or stick)"
    else:
        text = f"it is built in (transport {printable(device.transport) or 'unknown'}), not a card or stick"
    yield Reason(Rule.NOT_REMOVABLE, text)


def _name(device: StorageDevice) -> str:
    return printable(device.name, 40)


def _path(device: StorageDevice) -> str:
    return printable(device.path)
