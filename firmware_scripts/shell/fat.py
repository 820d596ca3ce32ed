"""Reads and writes the FAT boot partition of an image or a card in place with mtools, without mounting it.

Mounting would need root, let desktops look in, and change unrelated bytes. mtools' own lock is off, because the writer
of a card already holds the lock (:mod:`nightjar.firmware_scripts.shell.block_file`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightjar.firmware_scripts.shell.block_file import open_to_read
from nightjar.firmware_scripts.shell.hashing import sha256_of
from nightjar.host.programs import find_program, run_program
from nightjar.wire.errors import RemoteProtocolError, UnavailableError

# MBR: FAT16 and FAT32 (CHS and LBA) and EFI. GPT: basic data and EFI.
_FAT_TYPES = frozenset(
    {"4", "6", "b", "c", "e", "ef", "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"}
)
_SECTOR_BYTES = 512
_TIMEOUT_S = 600.0
_DRIVE = "n:"


class Fat:
    """A FAT file system. Every method raises UnavailableError if mtools cannot do it."""

    def __init__(self, settings: Path, image: Path, span: range) -> None:
        self._settings = settings
        self._image = image
        self.span = span
        """The bytes of the image or card that the partition takes."""

    def names(self) -> tuple[str, ...]:
        """The names of the files and folders at its root."""
        lines = self._run("mdir", "-b", "-a", f"{_DRIVE}/").splitlines()
        return tuple(line.removeprefix("N:/").removeprefix("n:/").rstrip("/") for line in lines if line)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if it does not exist."""
        with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
            copy = Path(folder) / "copy"
            try:
                self._run("mcopy", "-n", f"{_DRIVE}/{name}", str(copy))
            except UnavailableError:
                return None
            return copy.read_bytes() if copy.is_file() else None

    def write(self, name: str, data: bytes | Path) -> None:
        """Write a file, replacing an existing one and creating its folders."""
        folder, _, _ = name.rpartition("/")
        if folder and folder not in self.names():
            self._run("mmd", f"{_DRIVE}/{folder}")
        with tempfile.TemporaryDirectory(prefix="nightjar-") as work:
            if isinstance(data, bytes):
                source = Path(work) / "data"
                source.write_bytes(data)
            else:
                source = data
            self._run("mcopy", "-o", "-D", "o", str(source), f"{_DRIVE}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        if self.read(name) is not None:
            self._run("mdel", f"{_DRIVE}/{name}")

    def free_bytes(self) -> int:
        """Free space in bytes."""
        listing = self._run("mdir", f"{_DRIVE}/")
        match = re.search(r"([\d ]+) bytes free", listing)
        if not match:
            msg = f"mdir did not say how much of the boot partition is free: {listing[-100:]!r}"
            raise UnavailableError(msg)
        return int(match[1].replace(" ", ""))

    def hashes(self) -> dict[str, bytes]:
        """The sha256 of every file, by its path from the root."""
        with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
            if self.names():
                self._run("mcopy", "-s", "-n", "-Q", f"{_DRIVE}/*", folder)
            root = Path(folder)
            return {
                str(path.relative_to(root)): bytes.fromhex(sha256_of(path))
                for path in root.rglob("*")
                if path.is_file()
            }

    def flush(self) -> None:
        """Flush writes to the medium, and make the next reads come from the medium."""
        with self._image.open("r+b") as file:
            os.fsync(file.fileno())
        with open_to_read(self._image) as file:
            file.drop_cache()

    def _run(self, *command: str) -> str:
        environment = {**os.environ, "MTOOLSRC": str(self._settings), "MTOOLS_SKIP_CHECK": "1", "LC_ALL": "C.UTF-8"}
        done = run_program(command, _TIMEOUT_S, environment, "apt install mtools")
        if done.returncode:
            msg = f"{command[0]} failed on the boot partition: {done.stderr.strip()[:200]}"
            raise UnavailableError(msg)
        return done.stdout


@contextmanager
def boot_partition(image: Path) -> Iterator[Fat]:
    """Open the first FAT partition of an image or a card.

    Raises:
        RemoteProtocolError: there is no partition table, or no FAT partition.
        UnavailableError: the image or card cannot be inspected.
    """
    with fat_at(image, _span_of_fat(image)) as fat:
        yield fat


@contextmanager
def fat_at(image: Path, span: range) -> Iterator[Fat]:
    """Open the FAT at these bytes of a file, which need not have a partition table."""
    with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
        # Use a symlink, because mtools' settings cannot quote every possible file name.
        link = Path(folder) / "image"
        link.symlink_to(image.absolute())
        settings = Path(folder) / "mtoolsrc"
        settings.write_text(f'drive {_DRIVE} file="{link}" offset={span.start} nolock\n', encoding="utf-8")
        yield Fat(settings, image, span)


def _span_of_fat(image: Path) -> range:
    program = find_program("sfdisk")
    if program is None:
        msg = "sfdisk is missing, which reads partition tables: apt install fdisk"
        raise UnavailableError(msg)
    done = run_program([program, "--json", image], 60.0, {"LC_ALL": "C"})
    try:
        table = json.loads(done.stdout)["partitiontable"]
        size = int(table.get("sectorsize", _SECTOR_BYTES))
        found = [part for part in table.get("partitions", []) if part["type"] in _FAT_TYPES]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{image} has no partition table: expected the image of a card, unpacked"
        raise RemoteProtocolError(msg, code="image") from error
    if not found:
        msg = f"{image} has no FAT partition, which a board starts from"
        raise RemoteProtocolError(msg, code="image")
    start = int(found[0]["start"])
    if size != _SECTOR_BYTES:
        with open_to_read(image) as file:
            if not _is_fat(file.read_at(start * size, _SECTOR_BYTES)):
                msg = (
                    f"{image} has sectors of {size} bytes, and the partition table on it counts in others: no board "
                    "starts from it, and its boot partition is not where the table says"
                )
                raise RemoteProtocolError(msg, code="image")
    return range(start * size, (start + int(found[0]["size"])) * size)


def _is_fat(sector: bytes) -> bool:
    """Whether this is the boot sector of a FAT: a jump, and a size of sectors that is a power of two."""
    return sector[:1] in {b"\xeb", b"\xe9"} and int.from_bytes(sector[11:13], "little") in {512, 1024, 2048, 4096}
