"""A file in memory, for weights that are trained from and then thrown away: writing them would wear out the card.

This process and its children open it by its path, while it is held. It is gone with the process. Source:
memfd_create(2), proc_pid_fd(5).
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from nightjar.wire.identifiers import Sha256


class MemoryFile:
    """Bytes in memory, named by their hash; closed when nothing refers to the object any more.

    Raises:
        OSError: there is no memory for it, or the system has no such files.

    Attributes:
        path: where processes of this user can open it, for reading.
    """

    def __init__(self, name: Sha256, data: bytes) -> None:
        if not hasattr(os, "memfd_create"):
            msg = "this system has no files in memory"
            raise OSError(msg)
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        self.name = name
        self.path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        self.path.stat()  # or /proc is hidden


def held_in_memory(name: Sha256, data: bytes) -> MemoryFile | None:
    """The bytes in memory; None where that cannot be done."""
    with contextlib.suppress(OSError):
        return MemoryFile(name, data)
    return None
