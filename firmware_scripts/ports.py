"""The ports of a write: a file to write to, an image that can be read again, and a receiver of progress reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol


class BlockFile(Protocol):
    """A card, or a file in its place, opened exclusively for this process. Every method may raise OSError."""

    @property
    def size_bytes(self) -> int:
        """Its capacity in bytes."""

    @property
    def sector_bytes(self) -> int:
        """Its logical sector in bytes; 512 for a file."""

    @property
    def number(self) -> str:
        """``major:minor``, for a disk."""

    def write_at(self, offset: int, data: memoryview) -> int:
        """Write some of ``data``; return the number of bytes written, which may be fewer than all."""

    def read_at(self, offset: int, length_bytes: int) -> bytes:
        """Read up to ``length_bytes``; empty at the end of the card."""

    def sync(self) -> None:
        """Return once everything written is on the medium."""

    def drop_cache(self) -> None:
        """Make the next reads come from the medium, as far as the system allows it."""


class ByteStream(Protocol):
    """An unpacked image, read from start to end."""

    def read(self, length_bytes: int, /) -> bytes:
        """Read up to ``length_bytes``; empty at the end of the image."""


# Opens the image again, at its start.
OpenImage = Callable[[], AbstractContextManager[ByteStream]]


class WorkPhase(StrEnum):
    """The phase of the work that is reported."""

    SURVEY = "survey"
    WRITE = "write"
    VERIFY = "verify"


class ProgressReport(Protocol):
    """A callback that receives progress reports, on the thread that does the work."""

    def __call__(self, phase: WorkPhase, done_bytes: int, total_bytes: int | None) -> None:
        """Report progress; ``total_bytes`` is None while it is unknown, as in the survey of a packed image."""
