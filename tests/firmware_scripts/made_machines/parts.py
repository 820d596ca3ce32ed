"""What many of the machines have, and the list of them all."""

from tests.firmware_scripts.describing import Machine, mmc, mount, nvme, part, usb

CARD = 31_914_983_424
ROOT = ["holds-root", "not-removable"]
FIXED = ["not-removable"]
BIG_FIXED = ["not-removable", "too-large"]


def card(name="sdb", number="8:16", size=CARD, **facts):
    """A USB reader with a card that holds an old Raspberry Pi OS."""
    major, minor = (int(x) for x in number.split(":"))
    parts = [
        part(f"{name}1", f"{major}:{minor + 1}", 268435456, fstype="vfat", label="bootfs", uuid="5DE4-9D2E", rm=True),
        part(
            f"{name}2",
            f"{major}:{minor + 2}",
            size - 272629760,
            fstype="ext4",
            label="rootfs",
            uuid="fd695ef5",
            rm=True,
        ),
    ]
    return usb(name, number, size, parts, pttype="dos", **facts)


def laptop_root(points=("/",)):
    """NVMe with the system on its second partition: devices and mounts."""
    disk = nvme(
        0,
        1000204886016,
        [
            part("nvme0n1p1", "259:1", 536870912, fstype="vfat", uuid="A1B2-C3D4", mm=["/boot/efi"]),
            part("nvme0n1p2", "259:2", 999667000000, fstype="ext4", uuid="11-22", mm=list(points)),
        ],
    )
    mounts = [mount("259:2", "/", "ext4", "/dev/nvme0n1p2"), mount("259:1", "/boot/efi", "vfat", "/dev/nvme0n1p1")]
    return disk, mounts


LAPTOP, LAPTOP_MOUNTS = laptop_root()
LAPTOP_RULES = ["holds-boot", "holds-root", "not-removable", "too-large"]

PI_SD = mmc(
    0,
    CARD,
    [
        part("mmcblk0p1", "179:1", 536870912, fstype="vfat", label="bootfs", mm=["/boot/firmware"]),
        part("mmcblk0p2", "179:2", 31373918208, fstype="ext4", label="rootfs", mm=["/"]),
    ],
)
PI_SD_MOUNTS = [
    mount("179:2", "/", "ext4", "/dev/mmcblk0p2"),
    mount("179:1", "/boot/firmware", "vfat", "/dev/mmcblk0p1"),
]

MACHINES = {}


def machine(name, says, devices, mounts, expected, **rest):
    if name in MACHINES:
        raise ValueError(name)
    MACHINES[name] = Machine(says, devices, mounts, expected, **rest)


def laptop(name, says, others, expected, mounts=(), **rest):
    """The NVMe laptop with something else plugged in."""
    machine(
        name, says, [LAPTOP, *others], [*LAPTOP_MOUNTS, *mounts], {"/dev/nvme0n1": LAPTOP_RULES, **expected}, **rest
    )
