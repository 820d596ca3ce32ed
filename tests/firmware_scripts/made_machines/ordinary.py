"""Ordinary machines with a card."""

from tests.firmware_scripts.describing import mmc, mount, node, part, sata, usb
from tests.firmware_scripts.made_machines.parts import BIG_FIXED, CARD, FIXED, LAPTOP_RULES, card, laptop

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
