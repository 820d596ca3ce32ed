"""Writes one image to one card so that the card holds all of it, verified, or does not boot at all.

The order makes this safe (:data:`nightjar.firmware_scripts.core.plan.STEPS`): the head of the card is cleared first and
written last, after everything else has been read back from the medium. So whenever the write is interrupted (a kill, a
pulled cable, a full disk), the first block is still cleared, and no firmware finds anything to boot.

Every outcome is returned as a value; only a bug raises. Nothing here chooses or opens a target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from nightjar.firmware_scripts.core.plan import FIRST_BLOCK_BYTES, HEAD_BYTES, ImageChunk, Survey
from nightjar.firmware_scripts.ports import BlockFile, OpenImage, ProgressReport, WorkPhase
from nightjar.firmware_scripts.surveying import ImageChanged, chunks_again
from nightjar.firmware_scripts.verifying import VerifyFailed, WorkStopped, os_error_text, read_back

# Regular flushing keeps the displayed rate honest, and lets a bad card fail early.
SYNC_EVERY_BYTES = 32 * 2**20
_TAIL_BYTES = 2**20  # a GPT keeps its copy in the last 33 sectors, of at most 4096 bytes


@dataclass(frozen=True, slots=True)
class Written:
    """Every byte was written and read back from the medium."""

    written_bytes: int


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Writing to the card failed. ``offset`` is where the failure was noticed."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class ImageFailed:
    """The image changed after its survey, or cannot be read any more."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The write was asked to stop. ``touched`` says whether the card lost its old content and so does not boot."""

    touched: bool


Outcome = Written | WriteFailed | VerifyFailed | ImageFailed | Interrupted


def write_image(
    surveyed: Survey, open_image: OpenImage, card: BlockFile, report: ProgressReport, should_stop: Callable[[], bool]
) -> Outcome:
    """Write and verify; the module's docstring describes the card's state if the outcome is not :class:`Written`."""
    size = card.size_bytes
    if size < surveyed.image_bytes:
        return WriteFailed(size, f"the image has {surveyed.image_bytes} bytes, the card only {size}")
    try:
        _clear_ends(card, surveyed.image_bytes)
        head = _write_body(surveyed, open_image, card, report, should_stop)
        if bad := read_back(surveyed, surveyed.body, open_image, card, report, should_stop):
            return bad
        if should_stop():
            return Interrupted(touched=True)
        return _finish(surveyed, open_image, card, report, head)
    except WorkStopped:
        return Interrupted(touched=True)
    except _CardError as error:
        return WriteFailed(error.offset, error.text)
    except ImageChanged as error:
        return ImageFailed(str(error))


def clear_first_block(card: BlockFile) -> None:
    """Try to make a card unbootable. Errors are ignored: the fault that came before is what gets reported."""
    with contextlib.suppress(_CardError):
        _write_all(card, 0, bytes(min(FIRST_BLOCK_BYTES, card.size_bytes)))
        _sync(card, 0)


class _CardError(Exception):
    def __init__(self, offset: int, text: str) -> None:
        super().__init__(text)
        self.offset = offset
        self.text = text


def _clear_ends(card: BlockFile, image_bytes: int) -> None:
    # Clear the whole head, whatever the image's size: an old partition table must not survive beside new data.
    size = card.size_bytes
    _write_all(card, 0, bytes(min(HEAD_BYTES, size)))
    start = max(image_bytes, HEAD_BYTES, size - _TAIL_BYTES)
    _write_all(card, start, bytes(max(0, size - start)))
    _sync(card, 0)


def _write_body(
    surveyed: Survey, open_image: OpenImage, card: BlockFile, report: ProgressReport, should_stop: Callable[[], bool]
) -> list[tuple[ImageChunk, bytes]]:
    """Write everything but the head, and return the head."""
    head, unsynced, end = [], 0, HEAD_BYTES
    for chunk, data in chunks_again(surveyed, open_image):
        if should_stop():
            raise WorkStopped
        if chunk.offset < HEAD_BYTES:
            head.append((chunk, data))
            continue
        _write_all(card, chunk.offset, data)
        end, unsynced = chunk.offset + len(data), unsynced + len(data)
        if unsynced >= SYNC_EVERY_BYTES:
            _sync(card, end)
            unsynced = 0
        report(WorkPhase.WRITE, end, surveyed.image_bytes)
    _sync(card, end)
    return head


def _finish(
    surveyed: Survey,
    open_image: OpenImage,
    card: BlockFile,
    report: ProgressReport,
    head: list[tuple[ImageChunk, bytes]],
) -> Outcome:
    """Write and verify the head.

    The card may boot from here on, so this cannot be interrupted, and a fault clears the head again.
    """
    try:
        _write_head(card, head)
        bad = read_back(surveyed, surveyed.head, open_image, card, _silent, lambda: False)
    except _CardError:
        clear_first_block(card)
        raise
    if bad:
        clear_first_block(card)
        return bad
    report(WorkPhase.VERIFY, surveyed.image_bytes, surveyed.image_bytes)
    return Written(surveyed.mapped_bytes)


def _write_head(card: BlockFile, head: list[tuple[ImageChunk, bytes]]) -> None:
    first_block = b""
    for chunk, data in head:
        held_back = max(0, FIRST_BLOCK_BYTES - chunk.offset)
        if held_back:
            # With a block map of small blocks, the first block may arrive in several chunks with gaps.
            first_block = first_block.ljust(chunk.offset, b"\0") + data[:held_back]
        _write_all(card, chunk.offset + min(held_back, len(data)), data[held_back:])
    _sync(card, HEAD_BYTES)
    _write_all(card, 0, first_block)
    _sync(card, 0)


def _write_all(card: BlockFile, offset: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            taken = card.write_at(offset, rest)
        except OSError as error:
            raise _CardError(offset, f"cannot be written: {os_error_text(error)}") from error
        if taken <= 0:
            raise _CardError(offset, "cannot be written: the card takes no more bytes")
        offset, rest = offset + taken, rest[taken:]


def _sync(card: BlockFile, offset: int) -> None:
    try:
        card.sync()
    except OSError as error:
        raise _CardError(offset, f"could not be flushed: {os_error_text(error)}") from error


def _silent(phase: WorkPhase, done_bytes: int, total_bytes: int | None) -> None:
    """Report no progress: the head is a single chunk."""
