"""The socket on which systemd would hear a service."""

import contextlib
import socket

import pytest


class Line:
    """Where systemd would listen."""

    def __init__(self, path):
        self.environment = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000000"}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.setblocking(False)

    def heard(self):
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.socket.recv(100).decode())
        return found


@pytest.fixture
def line(tmp_path):
    found = Line(tmp_path / "n")
    yield found
    found.socket.close()
