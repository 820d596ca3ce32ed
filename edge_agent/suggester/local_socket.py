"""Serves requests on a Unix socket to this user's programs: a thread for each connection, and not many of them."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from nightjar.edge_agent.suggester.requests import MAX_LINE_BYTES, Answer, RequestError
from nightjar.host.unix_sockets import user_of

MOST_CONNECTIONS = 16
"""A program keeps one connection. Each is a thread, of which the service may have 64 in all its processes."""
PAUSE_S = 0.5
"""Pause after a shortage of descriptors or memory."""
_PASSES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ECONNABORTED}

_ENCODER = msgspec.json.Encoder()
OTHER_USER = RequestError("expected a program of the user that the suggester runs as", "user")
BUSY = RequestError(f"expected at most {MOST_CONNECTIONS} connections; close one and try again", "busy")
TOO_LONG = RequestError(f"expected a line of at most {MAX_LINE_BYTES} bytes", "request")


class LocalServer:
    """Answers the lines of each connection, one after another, until the process ends.

    ``answer`` is called from many threads. It must not raise.
    """

    def __init__(self, listener: socket.socket, answer: Callable[[bytes], Answer]) -> None:
        self._listener, self._answer = listener, answer
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        threading.Thread(target=self._accept, name="requests", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _PASSES:
                    return  # closed
                time.sleep(PAUSE_S)
                continue
            if user_of(connection) != os.geteuid():
                _refuse(connection, OTHER_USER)
            elif not self._free.acquire(blocking=False):
                _refuse(connection, BUSY)
            else:
                threading.Thread(target=self._serve, args=(connection,), name="request", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as lines:
                while line := lines.readline(MAX_LINE_BYTES + 1):
                    if not line.endswith(b"\n"):
                        # Too long, or the last line of a program that has gone.
                        _send(connection, TOO_LONG if len(line) > MAX_LINE_BYTES else self._answer(line))
                        return
                    _send(connection, self._answer(line[:-1]))
        except OSError:
            pass  # the program has gone
        finally:
            self._free.release()


def _refuse(connection: socket.socket, why: RequestError) -> None:
    with connection:
        try:
            _send(connection, why)
        except OSError:
            return


def _send(connection: socket.socket, answer: Answer) -> None:
    connection.sendall(_ENCODER.encode(answer) + b"\n")
