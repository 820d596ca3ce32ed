"""Unpacks gzip, xz and zstd as a stream, also files of several parts, with the padding that each format allows.

The standard library's files stop silently at padding inside a file (xz), or take it for damage. What follows the last
part and is no padding is an error here: it is the sign of a download that was joined or overwritten.

Source: RFC 1952 (gzip members); the .xz file format, 2.2 (stream padding: zeros, a multiple of four bytes); RFC 8878
(zstd frames; skippable frames, which pzstd writes before each frame).
"""

from __future__ import annotations

import lzma
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from backports import zstd

_READ_BYTES = 2**18
# zstd -22 --long=31 needs a window of 2 GiB. The library allocates no more than the image fills.
_WINDOW_LOG = 31 if sys.maxsize > 2**32 else 30


class PackedDataError(Exception):
    """The packed data are damaged, cut short, or followed by something else. Never leaves this package."""


class _Decoder(Protocol):
    """One part of a file, as the standard library's decompressors present it."""

    @property
    def eof(self) -> bool:
        """Whether the part has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether more packed bytes are needed."""

    @property
    def unused_data(self) -> bytes:
        """What follows the part."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Unpack up to ``max_length`` bytes."""


class _Gzip:
    """A gzip member; zlib checks its CRC and its size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def needs_input(self) -> bool:
        return not self._member.unconsumed_tail and not self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._member.decompress(self._member.unconsumed_tail + data, max_length)


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """A format: how a part of it begins, what unpacks it, and the unit of the zeros that may follow it (0: none)."""

    name: str
    begins: Callable[[bytes], bool]  # given the first 8 bytes
    decoder: Callable[[], _Decoder]
    padding_bytes: int


def is_skippable(start: bytes) -> bool:
    """Whether a skippable frame of zstd, or of lz4, begins with these bytes."""
    return len(start) >= 4 and 0x50 <= start[0] <= 0x5F and start[1:4] == b"\x2a\x4d\x18"


GZIP = PackedFormat("gzip", lambda start: start.startswith(b"\x1f\x8b"), _Gzip, 1)
XZ = PackedFormat(
    "xz", lambda start: start.startswith(b"\xfd7zXZ\x00"), lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), 4
)
ZSTD = PackedFormat(
    "zstd",
    lambda start: start.startswith(b"\x28\xb5\x2f\xfd") or is_skippable(start),
    lambda: zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}),
    0,
)


class UnpackedStream:
    """The unpacked bytes of a file, from its start."""

    def __init__(self, file: BinaryIO, packed: PackedFormat) -> None:
        self._file = file
        self._format = packed
        self._decoder: _Decoder | None = packed.decoder()
        self._waiting = b""  # packed bytes that were read and not used yet

    def read(self, length_bytes: int, /) -> bytes:
        """Read up to ``length_bytes``; empty at the end of the image.

        Raises:
            PackedDataError: the data are damaged, cut short, or followed by something else.
            OSError: the file cannot be read.
        """
        while length_bytes > 0:
            if self._decoder is None:
                if not self._another_part():
                    return b""
                self._decoder = self._format.decoder()
            data = self._unpack(self._decoder, length_bytes)
            if self._decoder.eof:
                self._waiting, self._decoder = self._decoder.unused_data, None
            if data:
                return data
        return b""

    def _unpack(self, decoder: _Decoder, length_bytes: int) -> bytes:
        packed = b""
        if decoder.needs_input:
            packed, self._waiting = self._waiting or self._file.read(_READ_BYTES), b""
            if not packed:
                msg = f"it ends in the middle of its {self._format.name} data, at byte {self._file.tell()}"
                raise PackedDataError(msg)
        try:
            return decoder.decompress(packed, length_bytes)
        except (lzma.LZMAError, zlib.error, zstd.ZstdError) as error:
            msg = f"its {self._format.name} data are wrong near byte {self._file.tell()} ({error})"
            raise PackedDataError(msg) from error

    def _another_part(self) -> bool:
        """Skip padding; whether another part follows."""
        padding = 0
        while True:
            self._waiting = self._waiting or self._file.read(_READ_BYTES)
            rest = self._waiting.lstrip(b"\0") if self._format.padding_bytes else self._waiting
            padding += len(self._waiting) - len(rest)
            at_end = not self._waiting
            self._waiting = rest
            if rest or at_end:
                break
        if padding and padding % self._format.padding_bytes:
            msg = f"{padding} zeros follow a part of its xz data, expected a multiple of {self._format.padding_bytes}"
            raise PackedDataError(msg)
        if not self._waiting:
            return False
        while len(self._waiting) < 8 and (more := self._file.read(_READ_BYTES)):
            self._waiting += more
        if not self._format.begins(self._waiting[:8]):
            at = self._file.tell() - len(self._waiting)
            msg = f"its {self._format.name} data end at byte {at}, and something else follows"
            raise PackedDataError(msg)
        return True
