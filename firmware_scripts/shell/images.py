"""Opens images as published: plain, or packed with gzip, xz or zstd; detected by their first bytes, not by name.

A packed file that ends early, or goes on with something else, counts as damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from nightjar.firmware_scripts.core.bmap import MAX_BMAP_BYTES, Bmap, parse_bmap
from nightjar.firmware_scripts.ports import ByteStream
from nightjar.firmware_scripts.shell.unpacked_stream import (
    GZIP,
    XZ,
    ZSTD,
    PackedDataError,
    PackedFormat,
    UnpackedStream,
    is_skippable,
)
from nightjar.wire.errors import ConfigError, RemoteProtocolError


class Packing(StrEnum):
    """How an image is packed."""

    PLAIN = "plain"
    GZIP = "gzip"
    XZ = "xz"
    ZSTD = "zstd"


_FORMATS = {Packing.GZIP: GZIP, Packing.XZ: XZ, Packing.ZSTD: ZSTD}
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "packed with bzip2: unpack it first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first",
    b"MSWIM": "a Windows image",
    b"<?xml": "XML (a block map?), not an image",
    b"\x04\x22\x4d\x18": "packed with lz4: unpack it first",
    b"\x02\x21\x4c\x18": "packed with lz4: unpack it first",
    b"LZIP": "packed with lzip: unpack it first",
    b"\x89LZO": "packed with lzop: unpack it first",
    b"]\x00\x00": "packed with lzma: unpack it first",
    b"\x1f\x9d": "packed with compress: unpack it first",
    b"Rar!": "a RAR archive: unpack it first",
    b"\x3a\xff\x26\xed": "an Android sparse image: simg2img it first",
    b"KDMV": "a VMDK image: qemu-img convert -O raw it first",
    b"vhdxfile": "a VHDX image: qemu-img convert -O raw it first",
    b"QFI\xfb": "a qcow2 image: qemu-img convert -O raw it first",
}


def packing_of(path: Path) -> Packing:
    """How the image at ``path`` is packed.

    Raises:
        ConfigError: the file cannot be read, or is not a disk image.
    """
    try:
        with path.open("rb") as file:
            skipped, start = _first_part(file)
    except OSError as error:
        msg = f"the image {path} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    for magic, what in _UNREADABLE.items():
        if start.startswith(magic):
            msg = f"{path} is {what}"
            raise ConfigError(msg)
    if skipped:
        return Packing.ZSTD  # whatever follows: only zstd and lz4 have skippable frames
    return next((packing for packing, packed in _FORMATS.items() if packed.begins(start)), Packing.PLAIN)


@contextmanager
def open_image(path: Path) -> Iterator[ByteStream]:
    """Open an image as a stream of unpacked bytes, from its start.

    Raises:
        OSError: the image cannot be read.
        RemoteProtocolError: the image is damaged.
    """
    packed = _FORMATS.get(packing_of(path))
    with path.open("rb") as file:
        yield _Unpacked(file, packed, path) if packed else file


def _first_part(file: BinaryIO) -> tuple[bool, bytes]:
    """The first 8 bytes behind the skippable frames that a file begins with, and whether there were any."""
    start, skipped = file.read(8), False
    while is_skippable(start) and len(start) == 8:
        file.seek(int.from_bytes(start[4:], "little"), 1)
        start, skipped = file.read(8), True
    return skipped, start


def find_bmap(path: Path) -> Path | None:
    """Find the block map beside an image: ``x.img.xz.bmap``, ``x.img.bmap`` or ``x.bmap`` for ``x.img.xz``."""
    names, name = [path.name], path.name
    for suffix in (".gz", ".xz", ".zst", ".img"):
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            names.append(name)
    candidates = (path.with_name(f"{name}.bmap") for name in names)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def read_bmap(path: Path) -> Bmap:
    """Read a block map from its file.

    Raises:
        ConfigError: the file cannot be read.
        RemoteProtocolError: the file is not a valid block map.
    """
    try:
        with path.open("rb") as file:
            return parse_bmap(file.read(MAX_BMAP_BYTES + 1))
    except OSError as error:
        msg = f"the block map {path} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error


class _Unpacked:
    """A packed image whose faults name its file."""

    def __init__(self, file: BinaryIO, packed: PackedFormat, path: Path) -> None:
        self._stream = UnpackedStream(file, packed)
        self._path = path

    def read(self, length_bytes: int, /) -> bytes:
        """Read up to ``length_bytes``."""
        try:
            return self._stream.read(length_bytes)
        except PackedDataError as error:
            msg = f"the image {self._path} is damaged: {error}. Download it again"
            raise RemoteProtocolError(msg, code="image") from error
