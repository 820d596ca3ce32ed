"""The plan of a write: what goes where, and in which order, as far as it is known beforehand.

An image is surveyed once, before any card is touched: its size, its sha256 and the sha256 of each chunk. So a damaged
image is found while the card is still intact, the space needed and the remaining time are known, and a card can be
verified without keeping the image in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Writes are split at multiples of this, so a fault is located to one chunk before the image is read again.
CHUNK_BYTES = 2**20
# Partition tables, boot records and boards' boot loaders lie in the first chunk; it is written after everything else
# has been read back. Its first sector is written last of all: without it no firmware finds anything to boot, and a
# single sector is never half written.
HEAD_BYTES = CHUNK_BYTES
FIRST_BLOCK_BYTES = 512

# The order in which a card is written, in words, for --dry-run and the documentation.
STEPS = (
    "open the target for exclusive use, and look again whether it is allowed and the one that was confirmed",
    "clear its first MiB, and its last where the image ends before it (old partition tables have a copy there)",
    "write everything behind the first MiB, flush it, drop the cache, read it back and compare each sha256",
    "write the first MiB without its first block and flush it; write the first block and flush it",
    "drop the cache, read the first MiB back and compare; clear it again if it differs",
)

CUSTOMISE_STEP = (
    "write the card's own settings to its boot partition, flush them and read them back; clear it if that fails"
)


@dataclass(frozen=True, slots=True)
class ImageChunk:
    """Bytes ``offset`` to ``offset + length_bytes`` of the image, at most :data:`CHUNK_BYTES`."""

    offset: int
    length_bytes: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of reading through a whole image once."""

    image_bytes: int
    sha256: str  # the sha256 of the unpacked image, in hex
    chunks: tuple[ImageChunk, ...]  # the chunks to be written, ascending; with a block map, only the mapped ones

    @property
    def mapped_bytes(self) -> int:
        """The number of bytes to be written."""
        return sum(chunk.length_bytes for chunk in self.chunks)

    @property
    def head(self) -> tuple[ImageChunk, ...]:
        """The chunks that are written last."""
        return tuple(chunk for chunk in self.chunks if chunk.offset < HEAD_BYTES)

    @property
    def body(self) -> tuple[ImageChunk, ...]:
        """The chunks that are written first."""
        return tuple(chunk for chunk in self.chunks if chunk.offset >= HEAD_BYTES)


def spans(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split ``start`` to ``end`` at multiples of :data:`CHUNK_BYTES`: (offset, length) of each piece.

    >>> list(spans(CHUNK_BYTES - 1, CHUNK_BYTES + 2))
    [(1048575, 1), (1048576, 2)]
    """
    while start < end:
        stop = min(end, (start // CHUNK_BYTES + 1) * CHUNK_BYTES)
        yield start, stop - start
        start = stop
