"""Files to whoever takes them: the kernel sends them, at first from the thread that answers.

waitress reads a file into memory, piece by piece, in its one loop, and polls all connections for each piece. A cohort
fetches its weights at the same moment, so here the kernel sends from the disk's cache. What a connection holds unsent
is kept short: the bytes leave as fast all the same, and the work is then shared between the sender's processor and the
receiver's. A client that does not keep up is left to the loop, so that it holds no thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from waitress.buffers import ReadOnlyFileBasedBuffer  # type: ignore[import-untyped] # waitress has no types
from waitress.channel import ClientDisconnected, HTTPChannel  # type: ignore[import-untyped] # waitress has no types

UNSENT_BYTES = 128 * 1024
"""A connection takes more once it holds less than this. With megabytes, weights take twice as long on loopback."""
WAIT_MS = 2
"""A client that takes nothing for so long does not keep up."""
AT_ONCE_S = 0.05
"""Nobody has a thread to himself for longer."""


class Channel(HTTPChannel):  # type: ignore[misc]
    """A connection of waitress's whose files the kernel sends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)

    def write_soon(self, data: Any) -> int:
        """Send, or leave it to the loop; bytes taken over."""
        if not isinstance(data, ReadOnlyFileBasedBuffer):
            return int(super().write_soon(data))
        file = _File(data)
        size_bytes = file.remain
        with self.outbuf_lock:  # the loop cannot close the socket meanwhile
            if not self.connected:
                raise ClientDisconnected
            if not self.total_outbufs_len:  # what comes before it has left
                self._send_at_once(file)
        if file.remain:
            super().write_soon(file)
        else:
            file.close()
        return size_bytes

    def send(self, data: bytes | _Piece, do_close: bool = True) -> int:
        """Bytes that the connection took; 0 if it takes none now, or is gone."""
        if not isinstance(data, _Piece):
            return int(super().send(data, do_close))
        try:
            return os.sendfile(self.socket.fileno(), *data)
        except BlockingIOError:
            return 0
        except OSError:
            if do_close:
                self.handle_close()
            return 0

    def _send_at_once(self, file: _File) -> None:
        room = select.poll()
        room.register(self.socket, select.POLLOUT)
        let_go_s = time.monotonic() + AT_ONCE_S
        with contextlib.suppress(OSError), self._full_segments():  # the loop finds out what is wrong
            while file.remain and room.poll(WAIT_MS) and time.monotonic() < let_go_s:
                sent = self.send(file.get(), do_close=False)
                if not sent:
                    break
                file.skip(sent)

    @contextlib.contextmanager
    def _full_segments(self) -> Iterator[None]:
        """Send no segment that is not full before the end: a tenth faster on loopback."""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        try:
            yield
        finally:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)


class _Piece(NamedTuple):
    """What the kernel is to send of a file."""

    handle: int
    offset: int
    size_bytes: int


class _File(ReadOnlyFileBasedBuffer):  # type: ignore[misc]
    """The rest of a file on disk, as waitress's buffers are asked for it, but never read."""

    def __init__(self, whole: ReadOnlyFileBasedBuffer) -> None:
        super().__init__(whole.file)
        self.remain: int = whole.remain
        self._offset: int = whole.file.tell()

    def get(self, numbytes: int = -1, skip: bool = False) -> _Piece:  # noqa: ARG002 - as waitress has it
        return _Piece(self.file.fileno(), self._offset, self.remain)

    def skip(self, numbytes: int, allow_prune: bool = False) -> None:  # noqa: ARG002 - as waitress has it
        self._offset += numbytes
        self.remain -= numbytes
