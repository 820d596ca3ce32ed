"""Verifies a card or an image by reading it back from the medium, and reports where it first differs.

After a flash, each chunk is compared with the survey of the image; without an image, each range with the block map.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightjar.firmware_scripts.core.bmap import Bmap
from nightjar.firmware_scripts.core.plan import CHUNK_BYTES, ImageChunk, Survey
from nightjar.firmware_scripts.ports import BlockFile, OpenImage, ProgressReport, WorkPhase
from nightjar.firmware_scripts.surveying import ImageChanged, chunks_again


@dataclass(frozen=True, slots=True)
class VerifyFailed:
    """The data read back is wrong. ``offset`` is the first byte known to differ or to be unreadable."""

    offset: int
    text: str


class WorkStopped(Exception):  # noqa: N818 - a request, not a fault
    """The work was asked to stop; nothing is wrong. Never leaves this package."""


def read_back(
    surveyed: Survey,
    chunks: Sequence[ImageChunk],
    open_image: OpenImage,
    card: BlockFile,
    report: ProgressReport,
    should_stop: Callable[[], bool],
) -> VerifyFailed | None:
    """Compare ``chunks`` of a surveyed image with the card; None if all of them match.

    Raises:
        WorkStopped: ``should_stop`` returned true.
    """
    if failed := _drop_cache(card):
        return failed
    for chunk in chunks:
        if should_stop():
            raise WorkStopped
        digest = _sha256_at(card, chunk.offset, chunk.length_bytes)
        if isinstance(digest, VerifyFailed):
            return digest
        if digest != chunk.sha256:
            offset = _first_difference(surveyed, chunk, open_image, card)
            return VerifyFailed(offset, "reads back differently than it should be")
        report(WorkPhase.VERIFY, chunk.offset + chunk.length_bytes, surveyed.image_bytes)
    return None


def check_ranges(card: BlockFile, bmap: Bmap, report: ProgressReport) -> VerifyFailed | None:
    """Compare a card or an image file with a block map; a failure gives the start of the first bad range."""
    if card.size_bytes < bmap.image_bytes:
        return VerifyFailed(card.size_bytes, f"is the end, but the block map describes {bmap.image_bytes} bytes")
    if failed := _drop_cache(card):
        return failed
    for part in bmap.ranges:
        digest = _sha256_at(card, part.offset, part.length_bytes)
        if isinstance(digest, VerifyFailed):
            return digest
        if digest.hex() != part.sha256:
            end = part.offset + part.length_bytes
            return VerifyFailed(part.offset, f"to {end}: the range is not what the block map says")
        report(WorkPhase.VERIFY, part.offset + part.length_bytes, bmap.image_bytes)
    return None


def os_error_text(error: OSError) -> str:
    """Describe a card's I/O error in words, with its errno name."""
    name = errno.errorcode.get(error.errno or 0, "")
    match error.errno:
        case errno.ENOSPC:
            return f"there is no space left ({name})"
        case errno.ENODEV | errno.ENXIO | errno.ENOMEDIUM:
            return f"the card or reader is gone ({name})"
        case errno.EIO:
            return f"the card or reader reports an error, or was pulled ({name})"
        case _:
            return f"{error.strerror or error} ({name})"


def _drop_cache(card: BlockFile) -> VerifyFailed | None:
    try:
        card.drop_cache()
    except OSError as error:
        return VerifyFailed(0, f"cannot be read back past the cache: {os_error_text(error)}")
    return None


def _sha256_at(card: BlockFile, offset: int, length_bytes: int) -> bytes | VerifyFailed:
    digest, end = hashlib.sha256(), offset + length_bytes
    while offset < end:
        try:
            data = card.read_at(offset, min(CHUNK_BYTES, end - offset))
        except OSError as error:
            return VerifyFailed(offset, f"cannot be read back: {os_error_text(error)}")
        if not data:
            return VerifyFailed(offset, "cannot be read back: the card ends here")
        digest.update(data)
        offset += len(data)
    return digest.digest()


def _first_difference(surveyed: Survey, bad: ImageChunk, open_image: OpenImage, card: BlockFile) -> int:
    """The offset of the first wrong byte in a bad chunk. Reads the image again, since it is not kept in memory."""
    try:
        wanted = next(data for chunk, data in chunks_again(surveyed, open_image) if chunk == bad)
        got = card.read_at(bad.offset, bad.length_bytes)
    except (OSError, ImageChanged):
        return bad.offset
    # If the second read matches, the card is bad all the same, and only the chunk is known.
    pairs = enumerate(zip(wanted, got, strict=False))
    return bad.offset + next((index for index, (a, b) in pairs if a != b), 0)
