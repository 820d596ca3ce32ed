"""Writes down machines the way ``lsblk -J -b -O`` and the kernel would: the words that ``make_machines`` is written in.

Only the columns of lsblk that tell something are here; the real output has forty more, which nothing reads.
"""

import json
from dataclasses import dataclass, field

GB = 10**9

PSEUDO = [
    "22 28 0:21 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw",
    "23 28 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw",
    "24 28 0:5 / /dev rw,nosuid,relatime shared:2 - devtmpfs udev rw,size=3980000k,mode=755",
    "26 28 0:24 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=802000k,mode=755",
    "32 22 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate",
]


def node(name, number, kind, size, children=(), **facts):
    """One device; what is not given is as lsblk prints it for a device that has none."""
    found = {
        "name": name,
        "kname": name,
        "path": f"/dev/{name}",
        "maj:min": number,
        "fstype": None,
        "label": None,
        "uuid": None,
        "partuuid": None,
        "pttype": None,
        "parttypename": None,
        "rm": False,
        "hotplug": False,
        "ro": False,
        "size": size,
        "state": None,
        "model": None,
        "vendor": None,
        "serial": None,
        "wwn": None,
        "hctl": None,
        "tran": None,
        "subsystems": "block",
        "type": kind,
        "rota": False,
        "mountpoint": None,
        "mountpoints": [None],
    }
    unknown = facts.keys() - found.keys() - {"mm", "pkname", "disk-seq", "log-sec"}
    if unknown:
        raise KeyError(unknown)
    points = facts.pop("mm", [])
    found.update(facts)
    if points:
        found["mountpoint"], found["mountpoints"] = points[0], list(points)
    if children:
        found["children"] = list(children)
    return found


def nvme(index, size, children=(), model="Samsung SSD 980 PRO 1TB", serial=None, **facts):
    serial = serial or f"S5GXNX0T40{index}577"
    facts = {"tran": "nvme", "subsystems": "block:nvme:pci", "state": "live", **facts}
    return node(f"nvme{index}n1", f"259:{index * 8}", "disk", size, children, model=model, serial=serial, **facts)


def sata(name, number, size, children=(), model="WDC WD10EZEX-08WN4A0", serial="WD-WCC6Y3LL", **facts):
    facts = {"tran": "sata", "subsystems": "block:scsi:pci", "state": "running", "vendor": "ATA     ", **facts}
    return node(name, number, "disk", size, children, model=model, serial=serial, **facts)


def usb(name, number, size, children=(), model="STORAGE DEVICE", serial="000000001206", **facts):
    """A card reader or stick; a hard disk with ``rm=False``."""
    facts = {
        "rm": True,
        "hotplug": True,
        "tran": "usb",
        "subsystems": "block:scsi:usb:pci",
        "state": "running",
        **facts,
    }
    return node(name, number, "disk", size, children, model=model, serial=serial, **facts)


def mmc(index, size, children=(), serial="0x3a7b1c02", **facts):
    facts = {"hotplug": True, "subsystems": "block:mmc:mmc_host:platform", **facts}
    return node(f"mmcblk{index}", f"179:{index * 32}", "disk", size, children, serial=serial, **facts)


def part(name, number, size, children=(), **facts):
    return node(name, number, "part", size, children, **facts)


def mapped(name, minor, kind, size, children=(), **facts):
    """A device of the device mapper."""
    return node(name, f"253:{minor}", kind, size, children, kname=f"dm-{minor}", path=f"/dev/mapper/{name}", **facts)


def loop(index, size, children=(), **facts):
    return node(f"loop{index}", f"7:{index}", "loop", size, children, **facts)


def mount(number, point, kind, source, options="rw", inside="/"):
    point = point.replace(" ", "\\040")
    return f"99 28 {number} {inside} {point} rw,relatime shared:1 - {kind} {source} {options}"


def swap(path, kind="partition"):
    return f"{path}\t{kind}\t2097148\t0\t-2"


@dataclass
class Machine:
    """``expected`` maps a path to the rules that refuse it; none of them means that it is allowed."""

    says: str
    devices: list
    mounts: list
    expected: dict
    swaps: list = field(default_factory=list)
    pseudo: list = field(default_factory=lambda: PSEUDO)

    def files(self):
        verdicts = [
            {"path": path, "allowed": not rules, "rules": sorted(rules)} for path, rules in self.expected.items()
        ]
        return {
            "lsblk.json": json.dumps({"blockdevices": self.devices}, indent=3) + "\n",
            "mountinfo": "\n".join([*self.pseudo, *self.mounts]) + "\n",
            "swaps": "\n".join(["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority", *self.swaps]) + "\n",
            "expected.json": json.dumps({"says": self.says, "targets": verdicts}, indent=2) + "\n",
        }
