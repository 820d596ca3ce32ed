"""Machines, each with what it shows: ``python tests/firmware_scripts/make_machines.py`` writes their files again.

None is a recording: they are composed by hand, input and expectation, from how lsblk (util-linux 2.31 to 2.41) and the
kernel print such machines. A recording that a user sends is added to the folder ``machines`` as it came, with an
``expected.json``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from describing import GB, PSEUDO, Machine, loop, mapped, mmc, mount, node, nvme, part, sata, swap, usb

FOLDER = Path(__file__).parent / "machines"

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


# ---- ordinary machines with a card -----------------------------------------------------------------------------------

laptop("laptop-usb-reader", "A laptop with its system on NVMe and a card in a USB reader.", [card()], {"/dev/sdb": []})
laptop(
    "laptop-sd-slot",
    "A laptop with a built-in SD slot on PCIe: the kernel says rm=0 for mmcblk0, yet it is a card.",
    [mmc(0, CARD, subsystems="block:mmc:mmc_host:pci")],
    {"/dev/mmcblk0": []},
)
laptop(
    "sd-slot-lsblk-2-40",
    "A newer lsblk knows the transport mmc and the kernel's count of media.",
    [mmc(0, CARD, tran="mmc", **{"disk-seq": 14})],
    {"/dev/mmcblk0": []},
)
laptop(
    "usb-stick-without-table",
    "A USB stick with one file system and no partition table.",
    [usb("sda", "8:0", 15_500_000_000, fstype="vfat", label="STICK")],
    {"/dev/sda": []},
)
laptop(
    "two-identical-readers",
    "Two readers of one make, neither with a serial number: both are allowed, neither can be told by serial.",
    [card(serial=None), card("sdc", "8:32", serial=None)],
    {"/dev/sdb": [], "/dev/sdc": []},
)
laptop(
    "reader-with-four-slots",
    "A reader with four slots, three of them empty.",
    [card(), *(usb(n, m, 0) for n, m in [("sdc", "8:32"), ("sdd", "8:48"), ("sde", "8:64")])],
    {"/dev/sdb": [], "/dev/sdc": ["no-medium"], "/dev/sdd": ["no-medium"], "/dev/sde": ["no-medium"]},
)
laptop(
    "read-only-switch",
    "The switch of the card's adapter is on lock.",
    [card(ro=True)],
    {"/dev/sdb": ["read-only"]},
)
laptop(
    "card-mounted-by-desktop",
    "The desktop has mounted both partitions of the card, one under a name with a space.",
    [card()],
    {"/dev/sdb": ["mounted"]},
    mounts=[
        mount("8:17", "/media/ann/bootfs", "vfat", "/dev/sdb1"),
        mount("8:18", "/media/ann/root fs", "ext4", "/dev/sdb2"),
    ],
)
laptop(
    "mount-that-lsblk-does-not-see",
    "mountinfo has a mount of the card that lsblk printed before it was there.",
    [card()],
    {"/dev/sdb": ["mounted"]},
    mounts=[mount("8:18", "/mnt", "ext4", "/dev/sdb2")],
)
laptop(
    "mount-that-only-lsblk-sees",
    "lsblk lists a mount point that mountinfo does not have any more: the disk is refused until both agree.",
    [usb("sdb", "8:16", CARD, [part("sdb1", "8:17", CARD - 4194304, fstype="vfat", mm=["/mnt/old"])])],
    {"/dev/sdb": ["mounted"]},
)
laptop(
    "partition-newer-than-lsblk",
    "A partition of the card was made and mounted after lsblk looked: it has the name of its disk.",
    [usb("sdb", "8:16", CARD)],
    {"/dev/sdb": ["mounted"]},
    mounts=[mount("8:17", "/mnt", "vfat", "/dev/sdb1")],
)
laptop(
    "stale-mount-of-a-pulled-stick",
    "A stick was pulled while it was mounted: its mount remains, its disk does not, and the card is another disk.",
    [card()],
    {"/dev/sdb": []},
    mounts=[mount("8:33", "/media/ann/GONE", "vfat", "/dev/sdc1")],
)
laptop(
    "mount-that-no-disk-has",
    "A mounted volume of the device mapper that lsblk does not list: any disk may be under it.",
    [card()],
    {"/dev/nvme0n1": [*LAPTOP_RULES, "mount-unknown"], "/dev/sdb": ["mount-unknown"]},
    mounts=[mount("253:7", "/srv", "ext4", "/dev/mapper/vg-srv")],
)
laptop(
    "bind-mount-of-a-folder",
    "Only a folder of the card is mounted, bound into a container's tree.",
    [card()],
    {"/dev/sdb": ["mounted"]},
    mounts=[mount("8:18", "/srv/jail/home", "ext4", "/dev/sdb2", inside="/home/pi")],
)
laptop(
    "ntfs-through-fuse",
    "A stick with NTFS, mounted through ntfs-3g: the file system is fuseblk.",
    [usb("sdb", "8:16", 64_000_000_000, [part("sdb1", "8:17", 63_999_000_000, fstype="ntfs")])],
    {"/dev/sdb": ["mounted"]},
    mounts=[mount("8:17", "/media/ann/STICK", "fuseblk", "/dev/sdb1")],
)
laptop(
    "usb-hard-disk-with-backup",
    "A 2 TB USB hard disk, unmounted: it may hold the only copy of something.",
    [usb("sdb", "8:16", 2000398934016, [part("sdb1", "8:17", 2000397868544, fstype="ext4", label="backup")], rm=False)],
    {"/dev/sdb": BIG_FIXED},
)
laptop(
    "usb-ssd-small",
    "A 128 GB USB SSD: small enough for a card, but its medium is fixed.",
    [usb("sdb", "8:16", 128_035_676_160, rm=False, model="Extreme SSD")],
    {"/dev/sdb": FIXED},
)
laptop(
    "usb-raid",
    "A USB RAID box that claims a removable medium of 12 TB.",
    [usb("sdb", "8:16", 12_000_138_625_024, model="USB3.0 RAID", vendor="ASMT    ")],
    {"/dev/sdb": ["too-large"]},
)
laptop(
    "sata-bay-that-says-removable",
    "A hot-swap SATA bay whose disk the kernel flags as removable.",
    [sata("sda", "8:0", 240_057_409_536, rm=True, hotplug=True)],
    {"/dev/sda": FIXED},
)
laptop(
    "usb-without-udev",
    "udev does not run: lsblk has no transport and no model, but the chain of subsystems says USB.",
    [usb("sdb", "8:16", CARD, tran=None, model=None, serial=None)],
    {"/dev/sdb": []},
)
laptop(
    "offline-disk",
    "A reader that was pulled and is still listed.",
    [usb("sdb", "8:16", CARD, state="offline")],
    {"/dev/sdb": ["offline"]},
)
laptop(
    "hostile-model-name",
    "A stick whose model and label hold escape sequences, line breaks and marks that turn text around.",
    [usb("sdb", "8:16", CARD, model="\x1b[2J\x1b[31mCARD\r\nallowed /dev/sda\u202egnp", serial="\x07" * 300)],
    {"/dev/sdb": []},
)
laptop(
    "unknown-facts",
    "lsblk could not read size, rm and ro of a disk, and knows no type of another.",
    [
        usb("sdb", "8:16", None, rm=None, ro=None),
        node("xyz0", "240:0", "mystery", CARD),
        node("xyz1", "240:1", None, CARD),
    ],
    {
        "/dev/sdb": ["not-removable", "unknown-fact"],
        "/dev/xyz0": ["unknown-kind"],
        "/dev/xyz1": ["unknown-kind"],
    },
)

# ---- layers between disk and mount -----------------------------------------------------------------------------------

ext4_root = [mount("253:1", "/", "ext4", "/dev/mapper/vg-root")]
machine(
    "lvm-root",
    "Root and swap on LVM on one SATA disk.",
    [
        sata(
            "sda",
            "8:0",
            1000204886016,
            [
                part("sda1", "8:1", 512_000_000, fstype="ext4", mm=["/boot"]),
                part(
                    "sda2",
                    "8:2",
                    999_000_000_000,
                    [
                        mapped("vg-root", 1, "lvm", 900_000_000_000, mm=["/"], fstype="ext4"),
                        mapped("vg-swap", 2, "lvm", 8_000_000_000, mm=["[SWAP]"], fstype="swap"),
                    ],
                    fstype="LVM2_member",
                ),
            ],
        ),
        card(),
    ],
    [*ext4_root, mount("8:1", "/boot", "ext4", "/dev/sda1")],
    {
        "/dev/sda": ["held-by-lvm", "holds-boot", "holds-root", "part-of-pool", "swap", *BIG_FIXED],
        "/dev/sdb": [],
    },
    swaps=[swap("/dev/dm-2")],
)
laptop(
    "lvm-on-a-stick",
    "Somebody's volume group spans a USB stick; its volume is active and not mounted.",
    [
        usb(
            "sdb",
            "8:16",
            CARD,
            [
                part(
                    "sdb1",
                    "8:17",
                    CARD - 1048576,
                    [mapped("data-all", 0, "lvm", CARD - 5242880, fstype="xfs")],
                    fstype="LVM2_member",
                )
            ],
        )
    ],
    {"/dev/sdb": ["held-by-lvm", "part-of-pool"]},
)
laptop(
    "lvm-inactive",
    "A stick with a physical volume whose group is not active: other disks may need it.",
    [usb("sdb", "8:16", CARD, fstype="LVM2_member")],
    {"/dev/sdb": ["part-of-pool"]},
)
md0 = node("md0", "9:0", "raid1", 500_000_000_000, fstype="ext4", uuid="ab", mm=["/"])
machine(
    "md-raid1-root",
    "Root on a RAID 1 of two SATA disks; lsblk prints the array under each.",
    [
        sata("sda", "8:0", 500_107_862_016, [part("sda1", "8:1", 500_000_000_000, [md0], fstype="linux_raid_member")]),
        sata(
            "sdb",
            "8:16",
            500_107_862_016,
            [part("sdb1", "8:17", 500_000_000_000, [md0], fstype="linux_raid_member")],
            serial="WD-OTHER",
        ),
        card("sdc", "8:32"),
    ],
    [mount("9:0", "/", "ext4", "/dev/md0")],
    {
        "/dev/sda": ["held-by-md", "holds-root", "part-of-pool", *BIG_FIXED],
        "/dev/sdb": ["held-by-md", "holds-root", "part-of-pool", *BIG_FIXED],
        "/dev/sdc": [],
    },
)
laptop(
    "md-on-two-sticks",
    "Two USB sticks are a running array that nothing mounts; lsblk prints it under the first only.",
    [
        usb("sdb", "8:16", CARD, [node("md127", "9:127", "raid0", 2 * CARD)], fstype="linux_raid_member"),
        usb("sdc", "8:32", CARD, fstype="linux_raid_member", serial="2"),
    ],
    {"/dev/sdb": ["held-by-md", "part-of-pool"], "/dev/sdc": ["part-of-pool"]},
)
laptop(
    "intel-raid",
    "Two small disks of an Intel RAID in hot-swap bays.",
    [
        sata(
            "sda", "8:0", 120_034_123_776, [node("md126", "9:126", "raid1", 114_000_000_000)], fstype="isw_raid_member"
        ),
        sata(
            "sdb", "8:16", 120_034_123_776, [node("md126", "9:126", "raid1", 114_000_000_000)], fstype="isw_raid_member"
        ),
    ],
    {
        "/dev/sda": ["held-by-md", "not-removable", "part-of-pool"],
        "/dev/sdb": ["held-by-md", "not-removable", "part-of-pool"],
    },
)
crypt_root = mapped(
    "luks-11", 0, "crypt", 999_000_000_000, [mapped("vg-root", 1, "lvm", 990_000_000_000, fstype="ext4")]
)
crypt_root["fstype"] = "LVM2_member"
machine(
    "dm-crypt-root",
    "Root on LVM inside LUKS on NVMe.",
    [
        nvme(
            0,
            1000204886016,
            [
                part("nvme0n1p1", "259:1", 536870912, fstype="vfat", mm=["/boot/efi"]),
                part("nvme0n1p2", "259:2", 999_600_000_000, [crypt_root], fstype="crypto_LUKS"),
            ],
        ),
        card(),
    ],
    [*ext4_root, mount("259:1", "/boot/efi", "vfat", "/dev/nvme0n1p1")],
    {
        "/dev/nvme0n1": ["held-by-crypt", "held-by-lvm", "holds-boot", "holds-root", "part-of-pool", *BIG_FIXED],
        "/dev/sdb": [],
    },
)
laptop(
    "luks-stick-open",
    "An encrypted stick that somebody has opened and not mounted.",
    [usb("sdb", "8:16", CARD, [mapped("vault", 3, "crypt", CARD - 16777216, fstype="ext4")], fstype="crypto_LUKS")],
    {"/dev/sdb": ["held-by-crypt"]},
)
laptop(
    "luks-stick-closed",
    "An encrypted stick that nobody has opened is a stick like another; the confirmation names it.",
    [usb("sdb", "8:16", CARD, fstype="crypto_LUKS")],
    {"/dev/sdb": []},
)
laptop(
    "kpartx-over-a-stick",
    "kpartx has made partitions of a stick with the device mapper: type part, and yet it holds the stick.",
    [usb("sdb", "8:16", CARD, [mapped("sdb1", 4, "part", 268435456, fstype="vfat")])],
    {"/dev/sdb": ["held-by-other"]},
)
laptop(
    "multipath",
    "One disk of a storage network, seen over two paths.",
    [
        sata("sda", "8:0", 200 * GB, [mapped("mpatha", 5, "mpath", 200 * GB)], tran="fc", fstype="mpath_member"),
        sata("sdb", "8:16", 200 * GB, [mapped("mpatha", 5, "mpath", 200 * GB)], tran="fc", fstype="mpath_member"),
    ],
    {
        "/dev/sda": ["held-by-multipath", "is-network", "not-removable", "part-of-pool"],
        "/dev/sdb": ["held-by-multipath", "is-network", "not-removable", "part-of-pool"],
    },
)
bcache0 = node("bcache0", "252:0", "disk", 1 * GB * 1000, fstype="ext4", mm=["/home"])
laptop(
    "bcache",
    "/home on bcache: a hard disk with a stick as its cache.",
    [
        sata("sda", "8:0", 1000204886016, [bcache0], fstype="bcache"),
        usb("sdb", "8:16", CARD, [bcache0], fstype="bcache"),
    ],
    {
        "/dev/sda": ["held-by-bcache", "mounted", "part-of-pool", *BIG_FIXED],
        "/dev/sdb": ["held-by-bcache", "mounted", "part-of-pool"],
    },
    mounts=[mount("252:0", "/home", "ext4", "/dev/bcache0")],
)
machine(
    "btrfs-root-subvolume",
    "Root on a btrfs subvolume: mountinfo gives a number that no device has.",
    [nvme(0, 500 * GB, [part("nvme0n1p2", "259:2", 499 * GB, fstype="btrfs", uuid="b7", mm=["/home", "/"])]), card()],
    [
        mount("0:25", "/", "btrfs", "/dev/nvme0n1p2", "rw,subvolid=256,subvol=/@", inside="/@"),
        mount("0:25", "/home", "btrfs", "/dev/nvme0n1p2", "rw,subvol=/@home", inside="/@home"),
    ],
    {"/dev/nvme0n1": ["holds-root", "mounted", *BIG_FIXED], "/dev/sdb": []},
)
laptop(
    "btrfs-two-devices",
    "A mounted btrfs of two sticks: mountinfo names the first only, the other has the same UUID.",
    [
        usb("sdb", "8:16", CARD, fstype="btrfs", uuid="5a-5a", mm=["/srv"]),
        usb("sdc", "8:32", CARD, fstype="btrfs", uuid="5a-5a", serial="2"),
    ],
    {"/dev/sdb": ["mounted", "part-of-pool"], "/dev/sdc": ["mounted", "part-of-pool"]},
    mounts=[mount("0:44", "/srv", "btrfs", "/dev/sdb")],
)
laptop(
    "btrfs-two-partitions",
    "The same on partitions, with a third card whose file system is another.",
    [
        usb("sdb", "8:16", CARD, [part("sdb1", "8:17", CARD - 4194304, fstype="btrfs", uuid="5a-5a")]),
        usb("sdc", "8:32", CARD, [part("sdc1", "8:33", CARD - 4194304, fstype="btrfs", uuid="5a-5a")], serial="2"),
        usb("sdd", "8:48", CARD, [part("sdd1", "8:49", CARD - 4194304, fstype="btrfs", uuid="5b-5b")], serial="3"),
    ],
    {"/dev/sdb": ["mounted", "part-of-pool"], "/dev/sdc": ["mounted", "part-of-pool"], "/dev/sdd": []},
    mounts=[mount("0:44", "/srv", "btrfs", "/dev/sdb1")],
)
laptop(
    "bcachefs-two-devices",
    "A mounted bcachefs lists its devices with colons between.",
    [usb("sdb", "8:16", CARD, fstype="bcachefs"), usb("sdc", "8:32", CARD, fstype="bcachefs", serial="2")],
    {"/dev/sdb": ["mounted"], "/dev/sdc": ["mounted"]},
    mounts=[mount("0:45", "/srv", "bcachefs", "/dev/sdb:/dev/sdc")],
)
machine(
    "zfs-root",
    "Root on a ZFS pool of two disks, which mountinfo names by pool only.",
    [
        nvme(0, 200 * GB, [part("nvme0n1p3", "259:3", 199 * GB, fstype="zfs_member", label="rpool")]),
        nvme(1, 200 * GB, [part("nvme1n1p3", "259:11", 199 * GB, fstype="zfs_member", label="rpool")]),
        usb("sdb", "8:16", CARD, fstype="zfs_member", label="backup"),
    ],
    [mount("0:26", "/", "zfs", "rpool/ROOT/debian", "rw,xattr,posixacl")],
    {
        "/dev/nvme0n1": ["holds-root", "not-removable", "part-of-pool"],
        "/dev/nvme1n1": ["holds-root", "not-removable", "part-of-pool"],
        "/dev/sdb": ["part-of-pool"],
    },
)

# ---- swap ------------------------------------------------------------------------------------------------------------

laptop(
    "swap-on-a-stick-partition",
    "A partition of a stick is used as swap.",
    [usb("sdb", "8:16", CARD, [part("sdb1", "8:17", 4 * GB, fstype="swap", mm=["[SWAP]"])])],
    {"/dev/sdb": ["swap"]},
    swaps=[swap("/dev/sdb1")],
)
laptop(
    "swap-file-on-a-card",
    "A file on a mounted card is used as swap.",
    [card()],
    {"/dev/sdb": ["mounted", "swap"]},
    mounts=[mount("8:18", "/mnt", "ext4", "/dev/sdb2")],
    swaps=[swap("/mnt/swapfile", "file")],
)
laptop(
    "swap-on-zram",
    "Swap in compressed memory, as on most new systems; it takes no disk.",
    [node("zram0", "252:0", "disk", 8 * GB, mm=["[SWAP]"]), card()],
    {"/dev/zram0": ["is-virtual", "not-removable", "swap"], "/dev/sdb": []},
    swaps=[swap("/dev/zram0")],
)
laptop(
    "swap-that-no-disk-has",
    "/proc/swaps names a device that lsblk does not list: any disk may hold it.",
    [card()],
    {"/dev/nvme0n1": [*LAPTOP_RULES, "swap-unknown"], "/dev/sdb": ["swap-unknown"]},
    swaps=[swap("/dev/dm-7")],
)
# ---- boards ----------------------------------------------------------------------------------------------------------

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

# ---- live systems and others that hide their disk --------------------------------------------------------------------

STICK = usb(
    "sdb",
    "8:16",
    CARD,
    [
        part("sdb1", "8:17", 5 * GB, fstype="iso9660", label="Live", rm=True),
        part("sdb3", "8:19", 20 * GB, fstype="ext4"),
    ],
    model="Flash Drive",
)
IDLE_NVME = nvme(0, 250 * GB, [part("nvme0n1p1", "259:1", 249 * GB, fstype="ntfs")])
machine(
    "live-usb-ubuntu",
    "An Ubuntu live stick: root is an overlay over squashfs in a loop device; the stick is mounted at /cdrom.",
    [loop(0, 2 * GB, ro=True, fstype="squashfs", mm=["/rofs"]), STICK, IDLE_NVME, card("sdc", "8:32")],
    [
        mount("8:17", "/cdrom", "iso9660", "/dev/sdb1", "ro"),
        mount("7:0", "/rofs", "squashfs", "/dev/loop0", "ro"),
        mount("0:31", "/", "overlay", "/cow", "rw,lowerdir=/minimal.squashfs,upperdir=/cow/upper,workdir=/cow/work"),
    ],
    {
        "/dev/loop0": ["is-loop", "mounted", "read-only"],
        "/dev/sdb": ["holds-root", "mounted"],
        "/dev/nvme0n1": FIXED,
        "/dev/sdc": [],
    },
)
machine(
    "live-usb-debian",
    "A Debian live stick: the lower layer is a visible mount of squashfs in a loop device.",
    [loop(0, 2 * GB, ro=True, fstype="squashfs"), STICK, card("sdc", "8:32")],
    [
        mount("8:17", "/run/live/medium", "iso9660", "/dev/sdb1", "ro"),
        mount("7:0", "/run/live/rootfs/filesystem.squashfs", "squashfs", "/dev/loop0", "ro"),
        mount(
            "0:31", "/", "overlay", "overlay", "rw,lowerdir=/run/live/rootfs/filesystem.squashfs/,upperdir=/run/live/o"
        ),
    ],
    {
        "/dev/loop0": ["holds-root", "is-loop", "mounted", "read-only"],
        "/dev/sdb": ["holds-root", "mounted"],
        "/dev/sdc": [],
    },
)
machine(
    "live-usb-fedora",
    "A Fedora live stick: root is a device-mapper snapshot over loop devices, the whole stick holds ISO 9660.",
    [
        loop(1, 8 * GB, [mapped("live-rw", 0, "dm", 8 * GB, fstype="ext4", mm=["/"])], ro=True),
        loop(2, 32 * GB, [mapped("live-rw", 0, "dm", 8 * GB, fstype="ext4", mm=["/"])]),
        usb("sdb", "8:16", CARD, fstype="iso9660"),
        card("sdc", "8:32"),
    ],
    [
        mount("8:16", "/run/initramfs/live", "iso9660", "/dev/sdb", "ro"),
        mount("253:0", "/", "ext4", "/dev/mapper/live-rw"),
    ],
    {
        "/dev/loop1": ["held-by-other", "holds-root", "is-loop", "read-only"],
        "/dev/loop2": ["held-by-other", "holds-root", "is-loop"],
        "/dev/sdb": ["holds-root", "mounted"],
        "/dev/sdc": [],
    },
)
machine(
    "live-usb-in-memory",
    "A live system copied to memory: nothing says any more which stick it came from, so no disk is safe.",
    [loop(0, 2 * GB, ro=True, fstype="squashfs"), STICK, card("sdc", "8:32")],
    [
        mount("7:0", "/run/live/rootfs/filesystem.squashfs", "squashfs", "/dev/loop0", "ro"),
        mount("0:31", "/", "overlay", "overlay", "rw,lowerdir=/run/live/rootfs/filesystem.squashfs"),
    ],
    {
        "/dev/loop0": ["holds-root", "is-loop", "mounted", "read-only", "root-unknown"],
        "/dev/sdb": ["root-unknown"],
        "/dev/sdc": ["root-unknown"],
    },
)
machine(
    "container-overlay-root",
    "Inside a container: root is an overlay of the host, whose disks are listed but not their mounts.",
    [nvme(0, 250 * GB, [part("nvme0n1p2", "259:2", 249 * GB)]), card()],
    [
        mount("0:60", "/", "overlay", "overlay", "rw,lowerdir=/var/lib/docker/overlay2/l/A:/var/lib/docker/overlay2/B"),
        mount("259:2", "/etc/hosts", "ext4", "/dev/nvme0n1p2", inside="/var/lib/docker/containers/1/hosts"),
    ],
    {"/dev/nvme0n1": ["mounted", "not-removable", "root-unknown"], "/dev/sdb": ["root-unknown"]},
)
machine(
    "initramfs-shell",
    "A rescue shell before the root is mounted: the disk that will hold it is not known yet.",
    [nvme(0, 250 * GB, [part("nvme0n1p2", "259:2", 249 * GB, fstype="ext4")]), card()],
    ["1 1 0:2 / / rw - rootfs rootfs rw"],
    {"/dev/nvme0n1": ["not-removable", "root-unknown"], "/dev/sdb": ["root-unknown"]},
    pseudo=PSEUDO[:3],
)
machine(
    "wsl2",
    "WSL 2: every disk is virtual, root is the third, swap the second.",
    [
        node(
            "sda",
            "8:0",
            "disk",
            400_000_000,
            fstype="ext4",
            ro=True,
            model="Virtual Disk",
            subsystems="block:scsi:vmbus",
            state="running",
        ),
        node("sdb", "8:16", "disk", 4 * GB, fstype="swap", model="Virtual Disk", mm=["[SWAP]"], state="running"),
        node("sdc", "8:32", "disk", 1_099_511_627_776, fstype="ext4", model="Virtual Disk", mm=["/"], state="running"),
    ],
    [mount("8:32", "/", "ext4", "/dev/sdc"), mount("0:40", "/mnt/c", "9p", "C:\\134", "rw,aname=drvfs")],
    {
        "/dev/sda": ["not-removable", "read-only"],
        "/dev/sdb": ["not-removable", "swap"],
        "/dev/sdc": [*ROOT, "too-large"],
    },
    swaps=[swap("/dev/sdb")],
)
machine(
    "virtual-machine",
    "A virtual machine with root on virtio and an empty second disk.",
    [
        node("vda", "254:0", "disk", 20 * GB, [part("vda1", "254:1", 19 * GB, fstype="ext4", mm=["/"])]),
        node("vdb", "254:16", "disk", 8 * GB, subsystems="block:virtio:pci"),
    ],
    [mount("254:1", "/", "ext4", "/dev/vda1")],
    {"/dev/vda": ROOT, "/dev/vdb": FIXED},
)

# ---- the rest of what a machine lists --------------------------------------------------------------------------------

laptop(
    "loops-of-snaps",
    "Loop devices of snaps, and one that somebody attached by hand.",
    [loop(0, 65_000_000, ro=True, fstype="squashfs", mm=["/snap/core20/1"]), loop(7, 8 * GB), card()],
    {"/dev/loop0": ["is-loop", "mounted", "read-only"], "/dev/loop7": ["is-loop"], "/dev/sdb": []},
    mounts=[mount("7:0", "/snap/core20/1", "squashfs", "/dev/loop0", "ro")],
)
laptop(
    "network-disks",
    "Disks that are somewhere else: NBD, iSCSI, Ceph.",
    [
        node("nbd0", "43:0", "disk", 8 * GB),
        sata("sda", "8:0", 100 * GB, tran="iscsi", model="VIRTUAL-DISK", vendor="IET     "),
        node("rbd0", "251:0", "disk", 8 * GB),
    ],
    {
        "/dev/nbd0": ["is-network", "not-removable"],
        "/dev/sda": ["is-network", "not-removable"],
        "/dev/rbd0": ["is-network", "not-removable"],
    },
)
laptop(
    "optical-drive",
    "A DVD drive with a disc in it, and one without.",
    [
        node(
            "sr0",
            "11:0",
            "rom",
            4_700_372_992,
            rm=True,
            hotplug=True,
            tran="sata",
            fstype="udf",
            ro=False,
            state="running",
        ),
        node("sr1", "11:1", "rom", 1_073_741_312, rm=True, hotplug=True, tran="usb", state="running"),
    ],
    {"/dev/sr0": ["is-optical"], "/dev/sr1": ["is-optical"]},
)
laptop(
    "windows-beside-linux",
    "A second NVMe disk with Windows, which Linux does not mount.",
    [
        nvme(
            1,
            512 * GB,
            [
                part("nvme1n1p1", "259:9", 104857600, fstype="vfat", label="SYSTEM"),
                part("nvme1n1p3", "259:11", 511 * GB, fstype="ntfs", label="Windows"),
            ],
        ),
        card(),
    ],
    {"/dev/nvme1n1": BIG_FIXED, "/dev/sdb": []},
)
laptop(
    "sticks-mounted-under-chroot",
    "Somebody repairs a card: it is mounted under /mnt with /dev and /proc bound into it.",
    [card()],
    {"/dev/sdb": ["mounted"]},
    mounts=[
        mount("8:18", "/mnt", "ext4", "/dev/sdb2"),
        mount("8:17", "/mnt/boot/firmware", "vfat", "/dev/sdb1"),
        mount("0:5", "/mnt/dev", "devtmpfs", "udev"),
        mount("0:22", "/mnt/proc", "proc", "proc"),
    ],
)
laptop(
    "flat-list",
    "lsblk printed a list instead of a tree: pkname says what belongs to what.",
    [
        {**usb("sdb", "8:16", CARD), "pkname": None},
        {**part("sdb1", "8:17", 268435456, fstype="vfat", mm=["/media/ann/bootfs"]), "pkname": "sdb"},
        {**usb("sdc", "8:32", CARD, serial="2"), "pkname": None},
    ],
    {"/dev/sdb": ["mounted"], "/dev/sdc": []},
    mounts=[mount("8:17", "/media/ann/bootfs", "vfat", "/dev/sdb1")],
)
laptop(
    "mount-by-uuid",
    "A file system without a number of its own names its device by UUID.",
    [usb("sdb", "8:16", CARD, fstype="btrfs", uuid="0a-0b")],
    {"/dev/sdb": ["mounted"]},
    mounts=[mount("0:47", "/srv", "btrfs", "/dev/disk/by-uuid/0a-0b")],
)
laptop(
    "btrfs-two-sticks-not-mounted",
    "A btrfs of two sticks that nothing mounts, a third with two partitions of one btrfs, and the journal of an ext4.",
    [
        usb("sdb", "8:16", CARD, [part("sdb1", "8:17", CARD - 4194304, fstype="btrfs", uuid="5a-5a")]),
        usb("sdc", "8:32", CARD, fstype="btrfs", uuid="5a-5a", serial="2"),
        usb(
            "sdd",
            "8:48",
            CARD,
            [
                part("sdd1", "8:49", 8_000_000_000, fstype="btrfs", uuid="5b-5b"),
                part("sdd2", "8:50", 8_000_000_000, fstype="btrfs", uuid="5b-5b"),
            ],
            serial="3",
        ),
        usb("sde", "8:64", CARD, fstype="jbd", uuid="5c-5c", serial="4"),
    ],
    {
        "/dev/sdb": ["part-of-pool"],
        "/dev/sdc": ["part-of-pool"],
        "/dev/sdd": [],
        "/dev/sde": ["part-of-pool"],
    },
)
laptop(
    "lvm-cache-on-a-card",
    "An LVM volume on a USB disk whose cache is the card in the built-in slot; nothing mounts it.",
    [
        usb("sda", "8:0", 240 * GB, [mapped("vg-slow", 7, "lvm", 200 * GB, fstype="xfs")], fstype="LVM2_member"),
        mmc(
            0,
            CARD,
            [
                part(
                    "mmcblk0p1",
                    "179:1",
                    CARD - 4194304,
                    [mapped("vg-cache", 8, "lvm", 30 * GB, [mapped("vg-slow", 7, "lvm", 200 * GB, fstype="xfs")])],
                    fstype="LVM2_member",
                )
            ],
        ),
    ],
    {"/dev/sda": ["held-by-lvm", "part-of-pool"], "/dev/mmcblk0": ["held-by-lvm", "part-of-pool"]},
)
laptop(
    "md-half-on-a-card",
    "An array of a partition of the system's NVMe and a card, mounted; another card was its member once.",
    [
        usb("sdb", "8:16", CARD, [part("sdb1", "8:17", 31 * GB, [node("md0", "9:0", "raid1", 31 * GB, mm=["/srv"])])]),
        usb("sdc", "8:32", CARD, [part("sdc1", "8:33", 31 * GB, fstype="linux_raid_member")], serial="2"),
    ],
    {"/dev/sdb": ["held-by-md", "mounted"], "/dev/sdc": ["part-of-pool"]},
    mounts=[mount("9:0", "/srv", "ext4", "/dev/md0")],
)
laptop(
    "dm-crypt-swap-on-a-stick",
    "Encrypted swap with a key of the day, on a stick; /proc/swaps names it by its number.",
    [
        usb(
            "sdb",
            "8:16",
            CARD,
            [
                part("sdb1", "8:17", 8 * GB, [mapped("cryptswap", 0, "crypt", 8 * GB, fstype="swap")]),
                part("sdb2", "8:18", 7 * GB, fstype="vfat"),
            ],
        )
    ],
    {"/dev/sdb": ["held-by-crypt", "swap"]},
    swaps=[swap("/dev/dm-0")],
)
machine(
    "pi-usb-root-card-behind-autofs",
    "A Pi that starts from its card and runs from USB: the boot partition is mounted only while somebody looks.",
    [
        mmc(0, CARD, [part("mmcblk0p1", "179:1", 536870912, fstype="vfat", label="bootfs")]),
        usb("sda", "8:0", 120 * GB, [part("sda2", "8:2", 119 * GB, fstype="ext4", mm=["/"])], rm=False),
    ],
    [mount("8:2", "/", "ext4", "/dev/sda2"), mount("0:36", "/boot/firmware", "autofs", "systemd-1")],
    {"/dev/mmcblk0": ["mount-unknown"], "/dev/sda": ["holds-root", "mount-unknown", "not-removable"]},
)
machine(
    "pi-usb-root-card-seen-through-autofs",
    "The same machine while somebody looks.",
    [
        mmc(0, CARD, [part("mmcblk0p1", "179:1", 536870912, fstype="vfat", label="bootfs", mm=["/boot/firmware"])]),
        usb("sda", "8:0", 120 * GB, [part("sda2", "8:2", 119 * GB, fstype="ext4", mm=["/"])], rm=False),
        card(),
    ],
    [
        mount("8:2", "/", "ext4", "/dev/sda2"),
        mount("0:36", "/boot/firmware", "autofs", "systemd-1"),
        mount("179:1", "/boot/firmware", "vfat", "/dev/mmcblk0p1"),
    ],
    {"/dev/mmcblk0": ["holds-boot"], "/dev/sda": ["holds-root", "not-removable"], "/dev/sdb": []},
)


def main():
    for name, made in MACHINES.items():
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in made.files().items():
            (folder / file).write_text(text, encoding="utf-8")
    print(f"{len(MACHINES)} machines in {FOLDER.name}/")


if __name__ == "__main__":
    main()
