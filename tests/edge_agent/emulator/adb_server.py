"""A server of the Android Debug Bridge with one phone, which is played: enough for the real ``adb`` client's ``shell``.

The client speaks to a server on a TCP port (5037 by default); the server speaks to phones. This stands in for both, so
that whatever asks a phone by ``adb`` can be tried without one. Requests are four hexadecimal figures, the length, and
text (SERVICES.TXT and OVERVIEW.TXT of the platform's sources). Only the old shell service is offered, without exit
statuses, and the old sync service, as far as ``adb push`` needs it; everything else is refused.
"""

from __future__ import annotations

import contextlib
import socketserver
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

CLIENT_VERSION = 41
"""Of the protocol between client and server; a client that finds another one ends the server and starts its own."""

Shell = Callable[[str], str]
"""What the phone prints for a command."""


class _Connection(socketserver.StreamRequestHandler):
    server: AdbServer

    def handle(self) -> None:
        """Answer one question, or connect to the phone and run a command there; either ends the connection."""
        with contextlib.suppress(ConnectionError, ValueError, TimeoutError):
            while length := self.rfile.read(4):
                self._answer(self.rfile.read(int(length, 16)).decode(errors="replace"))

    def _answer(self, request: str) -> None:
        serial = self.server.serial
        match request.split(":", 2):
            case ["host", "version"]:
                self._okay(f"{CLIENT_VERSION:04x}".encode())
            case ["host", "devices"]:
                self._okay(f"{serial}\tdevice\n".encode())
            case ["host", "features"] | ["host-serial", _, "features"]:
                self._okay(b"")
            case ["host", "transport-any"] | ["host", "transport", _] if self._is_for(request, "host:transport:"):
                self.wfile.write(b"OKAY")
            case ["host", "tport", _] if self._is_for(request, "host:tport:serial:"):
                self.wfile.write(b"OKAY" + (1).to_bytes(8, "little"))
            case ["shell", *command] | ["shell,raw", *command]:
                self.wfile.write(b"OKAY" + self.server.shell(":".join(command)).encode())
                self._end()
            case ["sync", ""]:
                self.wfile.write(b"OKAY")
                self._sync()
            case _:
                self._fail(f"device '{request.rpartition(':')[2][:80]}' not found")

    def _sync(self) -> NoReturn:
        """Take files (SYNC.TXT): four letters and a little-endian length, then the rest of the request."""
        while True:
            kind, length = self._frame()
            name = self.rfile.read(length).decode(errors="replace")
            match kind:
                case b"STAT":
                    mode, size = self.server.stat(name)
                    self.wfile.write(b"STAT" + struct.pack("<III", mode, size, 0))
                case b"SEND":
                    self.server.files[name.rpartition(",")[0]] = self._sent()
                    self.wfile.write(b"OKAY" + bytes(4))
                case _:
                    self._end()

    def _sent(self) -> bytes:
        pieces: list[bytes] = []
        while True:
            kind, length = self._frame()
            if kind == b"DONE":  # its length is the time of the file
                return b"".join(pieces)
            pieces.append(self.rfile.read(length))

    def _frame(self) -> tuple[bytes, int]:
        head = self.rfile.read(8)
        if len(head) < 8:
            self._end()
        return head[:4], int.from_bytes(head[4:], "little")

    def _is_for(self, request: str, named: str) -> bool:
        """Whether a request names our phone, or any."""
        return not request.startswith(named) or request.removeprefix(named) == self.server.serial

    def _okay(self, answer: bytes) -> None:
        self.wfile.write(b"OKAY" + f"{len(answer):04x}".encode() + answer)
        self._end()

    def _fail(self, why: str) -> None:
        self.wfile.write(b"FAIL" + f"{len(why):04x}".encode() + why.encode())
        self._end()

    def _end(self) -> NoReturn:
        raise ConnectionError


class AdbServer(socketserver.ThreadingTCPServer):
    """The server.

    Args:
        serial: of the phone.
        shell: what it prints.
        port: on the loopback address; 0 takes a free one.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, serial: str, shell: Shell, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Connection)
        self.serial = serial
        self.shell = shell
        self.files: dict[str, bytes] = {}

    def stat(self, path: str) -> tuple[int, int]:
        """Mode and size of what was pushed, or of a folder above it; zeros for what is not there."""
        if path in self.files:
            return stat.S_IFREG | 0o644, len(self.files[path])
        is_folder = any(name.startswith(f"{path.rstrip('/')}/") for name in self.files)
        return (stat.S_IFDIR | 0o755, 0) if is_folder else (0, 0)

    @property
    def port(self) -> int:
        """The port in use."""
        return int(self.server_address[1])


@contextlib.contextmanager
def serving(server: AdbServer) -> Iterator[AdbServer]:
    """Serve in a thread."""
    thread = threading.Thread(target=server.serve_forever, name="adb-server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
