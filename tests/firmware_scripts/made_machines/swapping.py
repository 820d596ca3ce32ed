"""Machines that swap to a disk, a file or memory."""

from tests.firmware_scripts.describing import GB, mount, node, part, swap, usb
from tests.firmware_scripts.made_machines.parts import CARD, LAPTOP_RULES, card, laptop

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
