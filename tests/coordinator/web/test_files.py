"""Files over HTTP: whole for whoever reads fast, slowly, in parts, or goes away; and nobody waits."""

import http.client
import itertools
import random
import socket

import pytest
from flask import Flask, send_file

from nightjar.coordinator.web.server import THREADS, serving

CONTENT = random.Random(1).randbytes(12_000_000)
"""More than sockets hold."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    (made / "large").write_bytes(CONTENT)
    (made / "empty").write_bytes(b"")
    return made


@pytest.fixture(scope="module")
def port(folder):
    app = Flask(__name__)
    app.get("/<name>")(lambda name: send_file(folder / name, mimetype="application/octet-stream"))
    app.get("/", endpoint="here")(lambda: "here")
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    found = listener.getsockname()[1]
    with serving(app, "127.0.0.1", found, listener):
        yield found


def ask(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    return connection


def test_a_file_comes_whole_and_its_connection_goes_on(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for path, content in (("/large", CONTENT), ("/empty", b""), ("/", b"here"), ("/large", CONTENT)):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read() == content) == (200, True)
    connection.close()


@pytest.mark.parametrize("first", [0, 1, 5_000_000, len(CONTENT) - 1])
def test_a_part_of_a_file_is_that_part(port, first):
    connection = ask(port, "/large", Range=f"bytes={first}-")
    with connection.getresponse() as answer:
        assert answer.status == 206
        assert answer.read() == CONTENT[first:]
    connection.close()


def test_whoever_reads_slowly_gets_it_whole(port):
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", port))
        slow.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        came = b"".join(iter(lambda: slow.recv(1 << 16), b""))
    assert came.endswith(CONTENT)


def test_clients_that_read_nothing_hold_no_thread(port):
    sockets = []
    for _ in range(3 * THREADS):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", port))
        one.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        sockets.append(one)
    connection = ask(port, "/")
    assert connection.getresponse().read() == b"here"
    connection.close()
    for one in sockets:
        one.close()


def test_whoever_goes_away_in_the_middle_harms_nobody(port, caplog):
    for size in itertools.chain([1, 100_000], range(1_000_000, 6_000_000, 500_000)):
        with socket.create_connection(("127.0.0.1", port)) as short:
            short.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            came = 0
            while came < size:
                came += len(short.recv(1 << 16))
    connection = ask(port, "/large")
    assert connection.getresponse().read() == CONTENT
    connection.close()
    assert "Unexpected exception" not in caplog.text
    assert "Traceback" not in caplog.text
