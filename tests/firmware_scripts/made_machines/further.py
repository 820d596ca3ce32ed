"""The rest of what a machine lists."""

from tests.firmware_scripts.describing import GB, loop, mapped, mmc, mount, node, nvme, part, sata, swap, usb
from tests.firmware_scripts.made_machines.parts import BIG_FIXED, CARD, card, laptop, machine

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
