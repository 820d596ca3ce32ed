"""Images laid out as Raspberry Pi OS lays them out, small, made with the tools that real ones are made with.

The real ones have 500 MB of FAT and 2 GB of ext4. What matters here: the partition table, the names at the FAT's root,
and what their texts say (pi-gen, and the images of October 2025).
"""

import shutil
import subprocess

START_BYTES = 4 * 2**20
TOOLS = ("mcopy", "mkfs.vfat", "sfdisk")
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
_ISSUE = "Raspberry Pi reference {date}\nGenerated using pi-gen, https://github.com/RPi-Distro/pi-gen, 0abc, stage2\n"
_LINE = (
    "console=serial0,115200 console=tty1 root=PARTUUID=4e639091-02 rootfstype=ext4 fsck.repair=yes rootwait quiet "
    "init=/usr/lib/raspberrypi-sys-mods/firstboot\n"
)

BOOKWORM = {"issue.txt": _ISSUE.format(date="2024-11-19"), "cmdline.txt": _LINE, "config.txt": "arm_64bit=1\n"}
TRIXIE = {
    "issue.txt": _ISSUE.format(date="2025-10-01"),
    "cmdline.txt": _LINE.replace("rootwait", "rootwait ds=nocloud;i=rpi-imager-1759000000"),
    "config.txt": "arm_64bit=1\n",
    "user-data": "#cloud-config\n\n# Nothing is set up yet: see cloud-init's documentation.\n",
    "meta-data": "instance_id: rpios-image\n",
    "network-config": "# network:\n#   version: 2\n",
}
_MARK = '{"format": "nightjar-1", "architecture": "arm64", "release": "bookworm"}\n'
OWN = {"nightjar/image.json": _MARK, "vmlinuz": "x"}


def missing():
    """What is not installed here of what these images are made with."""
    return [tool for tool in TOOLS if shutil.which(tool, path=_PATH) is None]


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, env={"PATH": _PATH}, **options).stdout


def make_image(path, files, fat_mb=64):
    """An image with a FAT of these files, and an ext4 that nobody looks into."""
    with path.open("wb") as file:
        file.truncate(START_BYTES + (fat_mb + 4) * 2**20)
    sectors = fat_mb * 2048
    table = ["label: dos", "label-id: 0x4e639091", "unit: sectors", ""]
    table += [f"start=8192, size={sectors}, type=c", f"start={8192 + sectors}, size=8192, type=83", ""]
    run("sfdisk", "-q", str(path), input="\n".join(table).encode())
    run("mkfs.vfat", "-F", "32", "-n", "bootfs", "--offset", "8192", str(path), str(fat_mb * 1024))
    fat = f"{path}@@{START_BYTES}"
    for folder in sorted({name.rpartition("/")[0] for name in files} - {""}):
        run("mmd", "-i", fat, f"::/{folder}")
    for name, text in files.items():
        run("mcopy", "-i", fat, "-", f"::/{name}", input=text.encode())
    return path


def read(path, name):
    """A file of the image's FAT, read by nothing of ours."""
    return run("mtype", "-i", f"{path}@@{START_BYTES}", f"::/{name}")


def names(path, folder=""):
    lines = run("mdir", "-b", "-i", f"{path}@@{START_BYTES}", f"::/{folder}").decode().splitlines()
    return sorted(line.removeprefix("::/").rstrip("/") for line in lines)
