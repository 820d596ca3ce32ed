"""Addresses of Unix sockets, whose paths the kernel limits. Standard library only: the IBus engine needs it, too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

MOST_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux, without the zero at its end."""


@contextlib.contextmanager
def address_of(path: Path) -> Iterator[str]:
    """An address of ``path`` that the kernel takes, also if the path is longer than a socket's may be.

    Raises:
        OSError: its folder cannot be opened.

    Source: unix(7); proc(5) for the links in ``/proc/self/fd``.
    """
    if len(os.fsencode(path)) <= MOST_PATH_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
