"""Unix sockets: addresses of any length, and whose the other end is. Standard library only: IBus's engine needs it."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

MOST_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux, without the zero at its end."""
_CREDENTIALS = struct.Struct("3i")  # struct ucred in unix(7): process, user, group


def user_of(connection: socket.socket) -> int:
    """The user id of the process at the other end, as it was when it connected, or began to listen."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(data)
    return int(user)


def expect_this_user(connection: socket.socket) -> None:
    """Let nothing be sent to another user's program, which may have made a socket where ours is looked for.

    Raises:
        PermissionError: another user listens there.
    """
    if (user := user_of(connection)) != os.geteuid():
        msg = f"expected a program of user {os.geteuid()} to listen, got one of user {user}"
        raise PermissionError(msg)


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
