"""Boards: Raspberry Pis and others."""

from tests.firmware_scripts.describing import GB, mmc, mount, node, nvme, part, swap, usb
from tests.firmware_scripts.made_machines.parts import CARD, FIXED, PI_SD, PI_SD_MOUNTS, ROOT, card, laptop, machine

machine(
    "pi-from-sd-with-reader",
    "A Raspberry Pi that runs from its SD card, with a second card in a USB reader.",
    [PI_SD, card("sda", "8:0")],
    PI_SD_MOUNTS,
    {"/dev/mmcblk0": ["holds-boot", "holds-root", "swap"], "/dev/sda": []},
    swaps=[swap("/var/swap", "file")],
)
machine(
    "pi-from-usb-with-card",
    "A Raspberry Pi that runs from a USB SSD, with a card to write in its own slot.",
    [
        usb(
            "sda",
            "8:0",
            240 * GB,
            [
                part("sda1", "8:1", 536870912, fstype="vfat", mm=["/boot/firmware"]),
                part("sda2", "8:2", 239 * GB, fstype="ext4", mm=["/"]),
            ],
            rm=False,
        ),
        mmc(0, CARD),
    ],
    [mount("8:2", "/", "ext4", "/dev/sda2"), mount("8:1", "/boot/firmware", "vfat", "/dev/sda1")],
    {"/dev/sda": ["holds-boot", "holds-root", "not-removable"], "/dev/mmcblk0": []},
)
machine(
    "pi-old-kernel-dev-root",
    "An old Raspberry Pi OS: mountinfo's source is /dev/root, lsblk prints numbers as text and one mount point.",
    [
        {
            "name": "mmcblk0", "kname": "mmcblk0", "maj:min": "179:0  ", "rm": "0", "ro": "0", "size": "31914983424",
            "hotplug": "1", "type": "disk", "mountpoint": None, "tran": None,
            "children": [
                {"name": "mmcblk0p1", "kname": "mmcblk0p1", "maj:min": "179:1  ", "rm": "0", "ro": "0", "hotplug": "1",
                 "size": "268435456", "type": "part", "mountpoint": "/boot"},
                {"name": "mmcblk0p2", "kname": "mmcblk0p2", "maj:min": "179:2  ", "rm": "0", "ro": "0", "hotplug": "1",
                 "size": "31642353664", "type": "part", "mountpoint": "/"},
            ],
        },
        {"name": "sda", "kname": "sda", "maj:min": "8:0    ", "rm": "1", "ro": "0", "size": "15931539456",
         "hotplug": "1", "type": "disk", "mountpoint": None, "tran": "usb", "model": "Mass-Storage   "},
    ],
    [mount("179:2", "/", "ext4", "/dev/root"), mount("179:1", "/boot", "vfat", "/dev/mmcblk0p1")],
    {"/dev/mmcblk0": ["holds-boot", "holds-root"], "/dev/sda": []},
)  # fmt: skip
machine(
    "cm4-emmc-root",
    "A Compute Module 4 that runs from its eMMC; the boot areas of the eMMC look like disks.",
    [
        mmc(0, CARD, PI_SD["children"], serial="0x44f1"),
        node("mmcblk0boot0", "179:32", "disk", 4194304, ro=True, hotplug=True),
        node("mmcblk0boot1", "179:64", "disk", 4194304, ro=False, hotplug=True),
        card("sda", "8:0"),
    ],
    PI_SD_MOUNTS,
    {
        "/dev/mmcblk0": ["holds-boot", "holds-root", "not-removable"],
        "/dev/mmcblk0boot0": ["is-emmc-boot", "read-only"],
        "/dev/mmcblk0boot1": ["is-emmc-boot"],
        "/dev/sda": [],
    },
)
machine(
    "cm4-nvme-root-idle-emmc",
    "A Compute Module 4 that runs from NVMe; its eMMC is idle, but soldered.",
    [
        nvme(0, 250 * GB, [part("nvme0n1p2", "259:2", 249 * GB, fstype="ext4", mm=["/"])]),
        mmc(0, CARD),
        node("mmcblk0boot0", "179:32", "disk", 4194304, ro=True, hotplug=True),
    ],
    [mount("259:2", "/", "ext4", "/dev/nvme0n1p2")],
    {"/dev/nvme0n1": ROOT, "/dev/mmcblk0": FIXED, "/dev/mmcblk0boot0": ["is-emmc-boot", "read-only"]},
)
laptop(
    "cm4-emmc-over-usb",
    "The eMMC of a Compute Module that rpiboot presents as a USB stick.",
    [usb("sdb", "8:16", CARD, model="RPi-MSD- 0001", vendor="RPi-MSD-", serial="10000000a3b1c2d3")],
    {"/dev/sdb": []},
)
machine(
    "pi-overlay-root-visible",
    "A Raspberry Pi with a read-only system: root is an overlay whose lower layer is mounted at /media/root-ro.",
    [PI_SD, card("sda", "8:0")],
    [
        mount("179:2", "/media/root-ro", "ext4", "/dev/mmcblk0p2", "ro"),
        mount("0:30", "/", "overlay", "overlayroot", "rw,lowerdir=/media/root-ro,upperdir=/media/root-rw/o"),
    ],
    {"/dev/mmcblk0": ["holds-boot", "holds-root", "mounted"], "/dev/sda": []},
)
machine(
    "pi-network-boot",
    "A Raspberry Pi without a card of its own: root is on NFS.",
    [card("sda", "8:0")],
    [mount("0:19", "/", "nfs4", "10.0.0.1:/srv/pi", "rw,vers=4.2")],
    {"/dev/sda": []},
)
