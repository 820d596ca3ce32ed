"""A small ext4 disk of its own, whose sectors the kernel counts: what reaches a card, journal and folders included."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SECTOR_BYTES = 512
"""What ``/sys/block/*/stat`` counts in, whatever the disk's own sectors are."""
JOURNAL_MB = 4


class LoopDisk:
    """A mounted disk."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder
        self._statistics = Path("/sys/block") / Path(device).name / "stat"
        self._begun = self._sectors()

    def written_bytes(self) -> int:
        """Bytes in the sectors that were written so far; what waits in memory is written first."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            subprocess.run(["sync", "-f", str(self.folder)], check=True)
        finally:
            os.close(descriptor)
        return (self._sectors() - self._begun) * SECTOR_BYTES

    def _sectors(self) -> int:
        return int(self._statistics.read_text().split()[6])


@contextlib.contextmanager
def loop_disk(folder: Path, size_mb: int = 64) -> Iterator[LoopDisk]:
    """Make and mount one; skips the test where this user or machine may not."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    make, losetup, mount = (shutil.which(name, path=path) for name in ("mkfs.ext4", "losetup", "mount"))
    if None in (make, losetup, mount):
        pytest.skip("mkfs.ext4, losetup or mount is not installed: apt install e2fsprogs mount")
    image, mounted = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    # Written now and not by the kernel in the background, where it would count.
    lazily = "lazy_itable_init=0,lazy_journal_init=0"
    subprocess.run([make, "-q", "-F", "-b", "4096", "-J", f"size={JOURNAL_MB}", "-E", lazily, str(image)], check=True)
    mounted.mkdir()
    attached = subprocess.run([losetup, "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if attached.returncode:
        pytest.skip(f"this machine or user may not attach a loop device: {attached.stderr.strip()}")
    device = attached.stdout.strip()
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, [losetup, "--detach", device], check=True)
        done = subprocess.run([mount, "-t", "ext4", device, str(mounted)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine or user may not mount a disk: {done.stderr.strip()}")
        stack.callback(subprocess.run, ["umount", "--lazy", str(mounted)], check=True)
        yield LoopDisk(mounted, device)
