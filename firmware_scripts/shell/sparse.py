"""Makes the block map of a sparse file from its data ranges (``SEEK_DATA``, ``SEEK_HOLE``; see lseek(2)).

Written zeros count as data. Omitting them would leave old bytes on a card where a file system needs zeros.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from nightjar.firmware_scripts.core.bmap import Bmap, Range
from nightjar.firmware_scripts.core.plan import CHUNK_BYTES
from nightjar.firmware_scripts.ports import ProgressReport, WorkPhase

BLOCK_BYTES = 4096


def map_of(image: Path, report: ProgressReport) -> Bmap:
    """Make the block map of an image file.

    Raises:
        OSError: the image cannot be read.
    """
    fd = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        ranges = []
        for start, end in _merged(_data(fd, size), size):
            digest = hashlib.sha256()
            for offset in range(start, end, CHUNK_BYTES):
                digest.update(os.pread(fd, min(CHUNK_BYTES, end - offset), offset))
                report(WorkPhase.SURVEY, min(end, offset + CHUNK_BYTES), size)
            ranges.append(Range(start, end - start, digest.hexdigest()))
        return Bmap(size, BLOCK_BYTES, tuple(ranges))
    finally:
        os.close(fd)


def _data(fd: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole up to the end
                return
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def _merged(parts: Iterator[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Round ranges to whole blocks and merge neighbours: file systems may report smaller pieces."""
    current: tuple[int, int] | None = None
    for start, end in parts:
        first = start // BLOCK_BYTES * BLOCK_BYTES
        last = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, size)
        if current and first <= current[1]:
            current = (current[0], max(current[1], last))
        else:
            if current:
                yield current
            current = (first, last)
    if current:
        yield current
