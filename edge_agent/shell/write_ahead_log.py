"""Finds damage in a write-ahead log of SQLite, which itself says nothing: it takes what comes before for all there is.

A power cut leaves a log whose end is torn. SQLite flushes it after each transaction, so that two whole transactions
after a torn place show that the place was durable, and was damaged later. Does not change anything.
Source: sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

UInt32 = npt.NDArray[np.uint32]

_HEADER, _FRAME = struct.Struct(">6I"), struct.Struct(">4I")
HEADER_BYTES, FRAME_BYTES = 32, 24
_MAGIC = 0x377F0682
"""The last bit says that the checksums are of big-endian words."""
_FORMAT = 3_007_000
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 65_536
_WORD = 0xFFFFFFFF
_DURABLE_AFTER = 2


@dataclass(frozen=True, slots=True)
class _Frame:
    """One page of the log: the end of a transaction, or not; of this log, or left by an earlier one."""

    data: bytes
    is_end: bool
    is_ours: bool


def log_fault(log: bytes) -> str:
    """What is damaged in a log; empty if it is whole, or only torn at its end.

    >>> log_fault(b"")
    ''
    >>> log_fault(bytes(5000))
    'its header is damaged'
    """
    if len(log) <= HEADER_BYTES:
        return ""  # nothing was in it yet
    magic, version, page_bytes, _, *salts = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    sums = _checksum((0, 0), log[: _HEADER.size], order)
    sound = magic & ~1 == _MAGIC and version == _FORMAT and sums == struct.unpack_from(">2I", log, _HEADER.size)
    if not sound or page_bytes.bit_count() != 1 or not _SMALLEST_PAGE <= page_bytes <= _LARGEST_PAGE:
        return "its header is damaged"
    frames = list(_frames(log, page_bytes, tuple(salts)))
    for number, frame in enumerate(frames):
        sums = _checksum(sums, frame.data[:8] + frame.data[FRAME_BYTES:], order)
        if not frame.is_ours or sums != struct.unpack_from(">2I", frame.data, _FRAME.size):
            after = sum(each.is_ours and each.is_end for each in frames[number + 1 :])
            return f"page {number + 1} of {len(frames)} in it is damaged" if after >= _DURABLE_AFTER else ""
    return ""


def _frames(log: bytes, page_bytes: int, salts: tuple[int, ...]) -> Iterator[_Frame]:
    size = FRAME_BYTES + page_bytes
    for begin in range(HEADER_BYTES, len(log) - size + 1, size):
        _, pages, *found = _FRAME.unpack_from(log, begin)
        yield _Frame(log[begin : begin + size], pages != 0, tuple(found) == salts)


def _checksum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """SQLite's checksum of a number of pairs of words, continued.

    A pair (x, y) makes (s, t) to (s + t + x, s + 2 t + x + y), modulo 2**32. That is linear, so that all pairs are
    weighed at once.
    """
    words = np.frombuffer(data, f"{order}u4").astype(np.uint32)
    start, weights = _weights(words.size // 2)
    total = (start * np.array(sums, np.uint32)).sum(axis=1, dtype=np.uint32) + (weights * words).sum(
        axis=1, dtype=np.uint32
    )
    return int(total[0]), int(total[1])


@functools.cache
def _weights(pairs: int) -> tuple[UInt32, UInt32]:
    """How much the two sums before, and each word, count in the two sums after so many pairs; (2, 2), (2, 2 pairs)."""
    weights = np.zeros((2, 2 * pairs), np.uint32)
    (a, b), (c, d) = (1, 0), (0, 1)
    for number in reversed(range(pairs)):
        weights[:, 2 * number] = (a + b) & _WORD, (c + d) & _WORD
        weights[:, 2 * number + 1] = b, d
        a, b, c, d = (a + b) & _WORD, (a + 2 * b) & _WORD, (c + d) & _WORD, (c + 2 * d) & _WORD
    return np.array([[a, b], [c, d]], np.uint32), weights
