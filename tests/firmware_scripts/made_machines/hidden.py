"""Live systems and others that hide their disk."""

from tests.firmware_scripts.describing import GB, PSEUDO, loop, mapped, mount, node, nvme, part, swap, usb
from tests.firmware_scripts.made_machines.parts import CARD, FIXED, ROOT, card, machine

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
