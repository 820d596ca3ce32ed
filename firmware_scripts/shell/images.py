"""Opens images as published: plain, or packed with gzip, xz or zstd; detected by their first bytes, not by name.

A packed file that ends early counts as damaged, not as short.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from backports import zstd

from nightjar.firmware_scripts.core.bmap import MAX_BMAP_BYTES, Bmap, parse_bmap
from nightjar.firmware_scripts.ports import ByteStream
from nightjar.wire.errors import ConfigError, RemoteProtocolError


class Packing(StrEnum):
    """Detect how the image at ``path`` is packed."""

    PLAIN = "plain"
    GZIP = "gzip"
    XZ = "xz"
    ZSTD = "zstd"


_MAGIC = {
    b"\x1f\x8b": Packing.GZIP,
    b"\xfd7zXZ\x00": Packing.XZ,
    b"\x28\xb5\x2f\xfd": Packing.ZSTD,
}
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"BZh": "packed with bzip2: unpack it first",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first",
    b"MSWIM": "a Windows image",
    b"<?xml": "XML (a block map?), not an image",
    b"QFI\xfb": "a qcow2 image: qemu-img convert -O raw it first",
}


def packing_of(path: Path) -> Packing:
    """How the image at ``path`` is packed.

    Raises:
        ConfigError: the file cannot be read, or is not a disk image.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        msg = f"the image {path} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    for magic, what in _UNREADABLE.items():
        if start.startswith(magic):
            msg = f"{path} is {what}"
            raise ConfigError(msg)
    return next((packing for magic, packing in _MAGIC.items() if start.startswith(magic)), Packing.PLAIN)


@contextmanager
def open_image(path: Path) -> Iterator[ByteStream]:
    """Open an image as a stream of unpacked bytes, from its start.

    Raises:
        OSError: the image cannot be read.
        RemoteProtocolError: the image is damaged.
    """
    with path.open("rb") as file:
        match packing_of(path):
            case Packing.PLAIN:
                yield file
            case Packing.GZIP:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield _Unpacked(unpacked, path)
            case Packing.XZ:
                with lzma.LZMAFile(file) as unpacked:
                    yield _Unpacked(unpacked, path)
            case Packing.ZSTD:
                with zstd.ZstdFile(file) as unpacked:
                    yield _Unpacked(unpacked, path)


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
    """A library's stream whose exceptions are translated to ours."""

    def __init__(self, stream: ByteStream, path: Path) -> None:
        self._stream = stream
        self._path = path

    def read(self, length_bytes: int, /) -> bytes:
        """Read up to ``length_bytes``."""
        try:
            return self._stream.read(length_bytes)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, zstd.ZstdError) as error:
            raise _damaged(self._path, error) from error


def _damaged(path: Path, why: object) -> RemoteProtocolError:
    msg = f"the image {path} is damaged: {why}. Download it again"
    return RemoteProtocolError(msg, code="image")
