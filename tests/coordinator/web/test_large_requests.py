"""A body that is too large is refused before any of it is stored, at each port of ours.

Proven before: 64 MiB for which nobody had asked lay in a temporary file, and the application knew nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import statistics
from pathlib import Path

import pytest
from flask import Flask

from nightjar.coordinator.web.admission import MOST_BODY_BYTES
from nightjar.coordinator.web.server import serving
from nightjar.edge_agent.keyboard.app import MAX_BODY_BYTES
from nightjar.edge_agent.keyboard.server import Serving
from nightjar.edge_agent.shell.suggester import page_listener
from tests.coordinator.tls.test_front import House

SENT = 64 << 20
PIECE = bytes(1 << 16)


RESET_PEAK = Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def files_open() -> set[str]:
    """Files of the disk that this process has open, unnamed ones included."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(str(descriptor.readlink()))
    return {path for path in found if path.startswith("/")}


@contextlib.contextmanager
def connected(port: int, context: ssl.SSLContext | None):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain_socket:
        if context is None:
            yield plain_socket
        else:
            with context.wrap_socket(plain_socket) as wrapped:
                yield wrapped


def send(port: int, head: bytes, context: ssl.SSLContext | None) -> tuple[bytes, int, set[str]]:
    """What was answered, by how much the peak of memory grew, and which files appeared."""
    before, appeared = files_open(), set()
    RESET_PEAK.write_text("5")
    grown, answer = -peak_bytes(), b""
    with connected(port, context) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(head)
            answer = b""
            for _ in range(SENT // len(PIECE)):
                connection.sendall(PIECE)
                appeared |= files_open() - before
        with contextlib.suppress(OSError):
            answer = connection.recv(12)
    return answer, grown + peak_bytes(), appeared


@contextlib.contextmanager
def https(tmp_path):
    house = House(tmp_path)
    with house.front():
        yield house.port, house.bare(), MOST_BODY_BYTES


@contextlib.contextmanager
def plain(_tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, serving(Flask("x"), "127.0.0.1", 0, listener.dup()):
        yield listener.getsockname()[1], None, MOST_BODY_BYTES


@contextlib.contextmanager
def keyboard(_tmp_path):
    app = Flask("x")
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    served = Serving(app, page_listener(0))
    yield served.port, None, MAX_BODY_BYTES
    served.close()


@pytest.mark.skipif(not os.access(RESET_PEAK, os.W_OK), reason="the peak of memory cannot be reset: /proc is read-only")
@pytest.mark.parametrize("port_of", [https, plain, keyboard], ids=lambda one: one.__name__)
@pytest.mark.parametrize("length", [f"Content-Length: {SENT}", "Transfer-Encoding: chunked"])
def test_64_mib_leave_no_file_and_little_memory(port_of, length, tmp_path):
    head = f"POST /x HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode()
    if "chunked" in length:
        head += f"{SENT:x}\r\n".encode()
    with port_of(tmp_path) as (port, context, _):
        found = [send(port, head, context) for _ in range(3)]
    assert all(answer in {b"HTTP/1.1 413", b""} for answer, _, _ in found)
    assert not set().union(*(appeared for _, _, appeared in found))
    assert statistics.median(grown for _, grown, _ in found) <= 8 << 20


@pytest.mark.parametrize("port_of", [https, plain, keyboard], ids=lambda one: one.__name__)
def test_it_is_said_at_once_and_what_is_just_right_comes_through(port_of, tmp_path):
    with port_of(tmp_path) as (port, context, most):
        for size, status in ((most + 1, b"HTTP/1.1 413"), (1 << 40, b"HTTP/1.1 413")):
            with connected(port, context) as connection:
                connection.sendall(f"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
                assert connection.recv(12) == status
        with connected(port, context) as connection:
            connection.sendall(f"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: {most}\r\n\r\n".encode())
            connection.sendall(bytes(most))
            assert connection.recv(12) in {b"HTTP/1.1 200", b"HTTP/1.1 404"}


@pytest.mark.parametrize("port_of", [https, plain, keyboard], ids=lambda one: one.__name__)
def test_headers_are_limited_too(port_of, tmp_path):
    with port_of(tmp_path) as (port, context, _), connected(port, context) as connection:
        connection.sendall(b"GET /x HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 14) + b"\r\n")
        assert connection.recv(12) in {b"HTTP/1.1 431", b"HTTP/1.0 431"}
