"""What a write needs from the world: a file to write to, an image that can be read again, and somebody to tell."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol


class BlockFile(Protocol):
    """A card, or a file that stands for one, opened for this process alone. Every method may raise OSError."""

    @property
    def size_bytes(self) -> int:
        """How much it holds."""

    def write_at(self, offset: int, data: memoryview) -> int:
        """Write some of ``data``; returns how many bytes were taken, which may be fewer than all."""

    def read_at(self, offset: int, length_bytes: int) -> bytes:
        """Read up to ``length_bytes``; empty at the end."""

    def sync(self) -> None:
        """Return once everything written is on the medium."""

    def drop_cache(self) -> None:
        """Make the next reads come from the medium, as far as the system lets us."""


class OpenedFile(BlockFile, Protocol):
    """A block file that knows which device it is."""

    @property
    def number(self) -> str:
        """``major:minor``, for a disk."""


class ByteStream(Protocol):
    """An unpacked image, read from start to end."""

    def read(self, length_bytes: int, /) -> bytes:
        """Up to ``length_bytes``; empty at the end."""


# Opens the image anew, at its start.
OpenImage = Callable[[], AbstractContextManager[ByteStream]]


class WorkPhase(StrEnum):
    """What is going on."""

    SURVEY = "survey"
    WRITE = "write"
    VERIFY = "verify"


class ProgressReport(Protocol):
    """Told about progress, from the thread that does the work."""

    def __call__(self, phase: WorkPhase, done_bytes: int, total_bytes: int | None) -> None:
        """``total_bytes`` is None while it cannot be known: a packed image that is surveyed."""
