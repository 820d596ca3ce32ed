"""The engine's connection to the suggester: one JSON object a line in each direction (docs/suggester.md).

Never waits: a suggester that is slow, gone or hostile must not hold up a key. Requests for words that were overtaken by
a later one are not sent. The owner of the event loop watches ``fileno`` and calls ``read``.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nightjar.host.unix_sockets import address_of, expect_this_user

MOST_BYTES = 1 << 16
"""Of an answer; a suggester's are far below."""
ANSWER_S = 2.0
"""After this time without an answer, the connection is made anew."""

Answered = Callable[[dict[str, Any] | None], None]
"""Called once for each request: with the answer, or with None if there is none."""


class SuggesterLine:
    """Asks the suggester of this user, over a connection that is made anew when it is needed.

    Args:
        now: seconds of a clock that does not go back.
        watch: called with each new connection's descriptor, and with None before it is closed.
    """

    def __init__(self, path: Path, now: Callable[[], float], watch: Callable[[int | None], None]) -> None:
        self._path, self._now, self._watch = path, now, watch
        self._socket: socket.socket | None = None
        self._received = b""
        self._asked: deque[tuple[float, Answered]] = deque()
        self._waiting: tuple[dict[str, Any], Answered] | None = None

    def ask(self, request: dict[str, Any], answered: Answered, *, overtaken: bool = False) -> None:
        """Send a request.

        One that may be overtaken waits for the answers to those before, and only the last of them is sent.
        """
        if self._asked and self._now() - self._asked[0][0] > ANSWER_S:
            self.close()
        if overtaken and self._asked:
            before, self._waiting = self._waiting, (request, answered)
            if before is not None:
                before[1](None)
            return
        if not self._sent(request):
            self.close()
            answered(None)
            return
        self._asked.append((self._now(), answered))

    def _sent(self, request: dict[str, Any]) -> bool:
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        try:
            if self._socket is None:
                self._socket = self._connected()
                self._watch(self._socket.fileno())
            return self._socket.send(line) == len(line)
        except OSError:
            return False

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            with address_of(self._path) as address:
                connection.connect(address)
            expect_this_user(connection)
        except OSError:
            connection.close()
            raise
        return connection

    def read(self) -> None:
        """Take in what has come."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        if not data or len(self._received) > MOST_BYTES:
            self.close()
            return
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        if not self._asked:
            self.close()  # it answers what nobody asked
            return
        _, answered = self._asked.popleft()
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        answered(answer if isinstance(answer, dict) and "error" not in answer else None)
        if self._waiting is not None and not self._asked:
            request, then = self._waiting
            self._waiting = None
            self.ask(request, then)

    def close(self) -> None:
        """Close the connection; requests without an answer get none."""
        connection, self._socket, self._received = self._socket, None, b""
        if connection is not None:
            self._watch(None)
            with contextlib.suppress(OSError):
                connection.close()
        unanswered = [answered for _, answered in self._asked]
        if self._waiting is not None:
            unanswered.append(self._waiting[1])
        self._asked.clear()
        self._waiting = None
        for answered in unanswered:
            answered(None)
