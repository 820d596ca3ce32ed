"""Disks that can be filled and emptied: a real one of two megabytes where we may mount it, else a limit of file sizes.

Both make the kernel refuse a write; what the process is told differs (no space left, or file too large).
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


class MountedDisk:
    """A tmpfs of its own."""

    kind = "a mounted disk without room"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, _pid: int) -> None:
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (64 * 1024, 512):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def make_room(self, _pid: int) -> None:
        self._ballast.unlink()


class LimitedFiles:
    """A process that may not make any file larger than it is; its log must be a pipe or lie elsewhere."""

    kind = "a limit of file sizes"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, pid: int) -> None:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))

    def make_room(self, pid: int) -> None:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int = 2 * 2**20) -> Iterator[MountedDisk | LimitedFiles]:
    """A folder on a disk that can be filled; says which kind it is."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False).returncode == 0
    disk = MountedDisk(folder) if mounted else LimitedFiles(folder)
    print("the disk is", disk.kind)
    try:
        yield disk
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
