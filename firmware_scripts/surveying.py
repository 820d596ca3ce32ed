"""Surveys a whole image before any card is touched: its integrity, its size and the sha256 of each chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from nightjar.firmware_scripts.core.bmap import Bmap
from nightjar.firmware_scripts.core.plan import CHUNK_BYTES, ImageChunk, Survey, spans
from nightjar.firmware_scripts.ports import ByteStream, OpenImage, ProgressReport, WorkPhase
from nightjar.wire.errors import IntegrityError, NightjarError, RemoteProtocolError


def survey(open_image: OpenImage, bmap: Bmap | None, report: ProgressReport) -> Survey:
    """Read an image once and check it against its block map.

    Raises:
        RemoteProtocolError: the image is damaged, empty, or of another size than in its block map.
        IntegrityError: a range does not match its sha256 in the block map; the message names its offset.
        OSError: the image cannot be read.
    """
    whole, chunks, end = hashlib.sha256(), [], 0
    checker = _RangeChecker(bmap)
    total = bmap.image_bytes if bmap else None
    with open_image() as stream:
        for offset, data in _pieces(stream):
            whole.update(data)
            for start, length in checker.mapped(offset, data):
                piece = memoryview(data)[start - offset : start - offset + length]
                chunks.append(ImageChunk(start, length, hashlib.sha256(piece).digest()))
            end = offset + len(data)
            report(WorkPhase.SURVEY, end, total)
    if end == 0 or (bmap and end != bmap.image_bytes):
        expected = f"{bmap.image_bytes} bytes (its block map)" if bmap else "at least one byte"
        msg = f"the image unpacks to {end} bytes, expected {expected}: is it the right file, and whole?"
        raise RemoteProtocolError(msg, code="image")
    return Survey(end, whole.hexdigest(), tuple(chunks))


class ImageChanged(Exception):  # noqa: N818 - an event, reported as an outcome
    """The image cannot be read any more, or differs from its survey. Never leaves this package."""


def chunks_again(surveyed: Survey, open_image: OpenImage) -> Iterator[tuple[ImageChunk, bytes]]:
    """The chunks of a survey with their bytes, each checked against its sha256 because the file may have been replaced.

    Raises:
        ImageChanged: the image cannot be read, or is not the one that was surveyed.
    """
    try:
        with open_image() as stream:
            position = 0
            for chunk in surveyed.chunks:
                while position < chunk.offset and (passed := stream.read(min(chunk.offset - position, CHUNK_BYTES))):
                    position += len(passed)
                data = exactly(stream, chunk.length_bytes)
                if hashlib.sha256(data).digest() != chunk.sha256:
                    msg = f"the image has changed since it was looked through (at byte {chunk.offset})"
                    raise ImageChanged(msg)
                yield chunk, data
                position = chunk.offset + chunk.length_bytes
    except (OSError, NightjarError) as error:
        msg = f"the image cannot be read any more: {error}"
        raise ImageChanged(msg) from error


def exactly(stream: ByteStream, length_bytes: int) -> bytes:
    """Read ``length_bytes`` from a stream that may return fewer per call; the result is shorter only at its end."""
    parts, missing = [], length_bytes
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _pieces(stream: ByteStream) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while data := exactly(stream, CHUNK_BYTES):
        yield offset, data
        offset += len(data)


class _RangeChecker:
    """Follows the ranges of a block map through an image that is read from start to end."""

    def __init__(self, bmap: Bmap | None) -> None:
        self._ranges = iter(bmap.ranges) if bmap else None
        self._current = next(self._ranges, None) if self._ranges else None
        self._hash = hashlib.sha256()

    def mapped(self, offset: int, data: bytes) -> Iterator[tuple[int, int]]:
        """The mapped (offset, length) spans in ``data``; each range is checked once its last byte has been read."""
        end = offset + len(data)
        if self._ranges is None:
            yield from spans(offset, end)
            return
        while (current := self._current) and current.offset < end:
            stop = current.offset + current.length_bytes
            start, until = max(offset, current.offset), min(end, stop)
            self._hash.update(memoryview(data)[start - offset : until - offset])
            yield from spans(start, until)
            if stop > end:
                return
            if self._hash.hexdigest() != current.sha256:
                msg = f"the image is damaged: bytes {current.offset} to {stop} are not what its block map says"
                raise IntegrityError(msg)
            self._current, self._hash = next(self._ranges, None), hashlib.sha256()
