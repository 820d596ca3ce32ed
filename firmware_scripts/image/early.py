"""Builds the initramfs: busybox, the few kernel modules that are needed to reach the card, and a script. Pure.

Debian's own initramfs would have to be built under emulation, which takes minutes, and again for each kernel.
Sources: Linux, Documentation/driver-api/early-userspace/buffer-format.rst (newc cpio); modules.dep(5), modules.builtin.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from nightjar.wire.errors import ConfigError

INIT = """\
#!/bin/sh
# Loads what the root file system needs, waits for it, and hands over to systemd. Every step that fails is said on the
# console; ten seconds are more than a slow card takes.
export PATH=/bin
busybox mkdir -p /proc /sys /dev /new
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /modules/order); do
    busybox insmod "/modules/$module" || echo "early: $module could not be loaded"
done
for word in $(busybox cat /proc/cmdline); do
    case $word in root=*) root=${word#root=} ;; esac
done
tries=0
while [ ! -b "$root" ] && [ $tries -lt 100 ]; do
    busybox sleep 0.1
    tries=$((tries + 1))
done
busybox mount -o ro "$root" /new || { echo "early: $root cannot be mounted"; busybox poweroff -f; }
busybox mount --move /dev /new/dev
busybox umount /sys /proc
exec busybox switch_root /new /sbin/init
"""


def modules_in_order(wanted: Sequence[str], dependencies: str, builtin: str) -> tuple[str, ...]:
    r"""The paths of the modules to load, each after its dependencies.

    Names built into the kernel need no file. ``dependencies`` and ``builtin`` are the texts of ``modules.dep`` and
    ``modules.builtin``.

    Raises:
        ConfigError: the kernel lacks one of the modules.

    >>> modules_in_order(["ext4"], "fs/ext4.ko: fs/jbd2.ko lib/crc16.ko\nfs/jbd2.ko:\nlib/crc16.ko:\n", "")
    ('lib/crc16.ko', 'fs/jbd2.ko', 'fs/ext4.ko')
    """
    needs = {path: rest.split() for path, _, rest in (line.partition(":") for line in dependencies.splitlines())}
    by_name = {_name(path): path for path in needs}
    inside = {_name(path) for path in builtin.split()}
    paths: dict[str, None] = {}
    for name in wanted:
        path = by_name.get(name.replace("-", "_"))
        if path is not None:
            # modules.dep lists all dependencies, the deepest last.
            paths |= dict.fromkeys((*reversed(needs[path]), path))
        elif name.replace("-", "_") not in inside:
            msg = f"the kernel has no module {name}"
            raise ConfigError(msg)
    return tuple(paths)


def early_archive(busybox: bytes, modules: Sequence[str], read_module: Callable[[str], bytes]) -> bytes:
    """The packed initramfs; equal input gives identical bytes.

    ``busybox`` is the statically linked program; ``modules`` are paths in load order.
    """
    names = [PurePosixPath(path).name for path in modules]
    files = {
        "bin/busybox": busybox,
        "init": INIT.encode(),
        "modules/order": " ".join(names).encode(),
        **{f"modules/{name}": read_module(path) for name, path in zip(names, modules, strict=True)},
    }
    return gzip.compress(_cpio(files), compresslevel=6, mtime=0)


def _cpio(files: Mapping[str, bytes]) -> bytes:
    folders = sorted({path.split("/")[0] for path in files if "/" in path})
    entries = [(folder, 0o040755, b"") for folder in folders]
    entries += [(path, 0o100755, data) for path, data in sorted(files.items())]
    # The script's shell: the kernel starts the script before anything else exists.
    entries.append(("bin/sh", 0o120777, b"busybox"))
    made = bytearray()
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        links = 2 if mode & 0o040000 and not mode & 0o100000 else 1
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name), 0)
        made += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        made += bytes(-len(made) % 4) + data
        made += bytes(-len(made) % 4)
    return bytes(made)


def _name(path: str) -> str:
    name = PurePosixPath(path).name
    return name[: name.index(".ko")].replace("-", "_") if ".ko" in name else name.replace("-", "_")
