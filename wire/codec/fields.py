"""Bit fields: numbers of given widths packed without gaps, the plain part of a payload.

The most significant bit of a number comes first, and the first bit is the highest bit of the first byte. No number is
wider than 56 bits. Both directions work on whole arrays.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import RemoteProtocolError

Ints = npt.NDArray[np.int64]

WIDEST = 56
"""Widest field in bits: a field that begins at any bit of a byte lies within eight bytes."""


def pack(values: Ints, widths: Ints) -> bytes:
    """Write numbers in [0, 2**width) of widths in [0, 56]; the last byte is padded with zeros.

    >>> pack(np.array([1, 5]), np.array([1, 3])).hex()
    'd0'
    """
    ends = np.repeat(np.cumsum(widths), widths.astype(np.intp))
    bits = np.repeat(values, widths.astype(np.intp)) >> (ends - 1 - np.arange(ends.size))
    return np.packbits((bits & 1).astype(np.uint8)).tobytes()


def refuse(why: str) -> NoReturn:
    """Refuse a payload that is not what it claims to be."""
    raise RemoteProtocolError(why, code="payload")


class FieldReader:
    """Reads numbers from the front of a byte string; raises :class:`RemoteProtocolError` if there are too few bits."""

    def __init__(self, data: bytes) -> None:
        # A sliding window: the eight bytes from each byte on, as one number.
        self._windows = np.ndarray((len(data) + 1,), ">u8", data + bytes(8), strides=(1,))
        self._bits = 8 * len(data)
        self._at = 0

    def take(self, widths: Ints) -> Ints:
        """Read a number >= 0 for each of the widths in [0, 56].

        Raises:
            RemoteProtocolError: the bytes end too early.
        """
        present = np.flatnonzero(widths)  # most fields have no bits; a hostile payload could claim millions
        numbers = np.zeros(widths.size, np.int64)
        if present.size == 0:
            return numbers
        widths = widths[present]
        ends = self._at + np.cumsum(widths)
        if int(ends[-1]) > self._bits:
            refuse(f"the payload ends too early: expected {int(ends[-1])} bits of numbers, got {self._bits}")
        self._at = int(ends[-1])
        begins = ends - widths
        windows = self._windows[begins >> 3].astype(np.uint64) << (begins & 7).astype(np.uint64)
        numbers[present] = windows >> (64 - widths).astype(np.uint64)
        return numbers

    def one(self, width: int) -> int:
        """Read one number.

        Raises:
            RemoteProtocolError: the bytes end too early.
        """
        return int(self.take(np.array([width], np.int64))[0])

    def finish(self) -> None:
        """Check that only the zero padding of the last byte is left.

        Raises:
            RemoteProtocolError: more bits are left, or they are not zero.
        """
        unread = self._bits - self._at
        if unread >= 8 or (unread and self.one(unread)):
            refuse(f"{unread} bits are left after the last number, expected fewer than 8 zeros")
