"""Machines with layers between disk and mount: LVM, RAID, encryption, pools."""

from tests.firmware_scripts.describing import GB, mapped, mount, node, nvme, part, sata, swap, usb
from tests.firmware_scripts.made_machines.parts import BIG_FIXED, CARD, card, laptop, machine

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
