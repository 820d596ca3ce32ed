"""The end of the HTTP server: who is being answered gets the answer, who comes then waits for the next server."""

import contextlib
import http.client
import socket
import threading

import pytest
from flask import Flask, request
from waitress.channel import ClientDisconnected, HTTPChannel

from nightjar.coordinator.web.server import DRAIN_S, serving
from nightjar.wire.errors import ConfigError

BODY = b"x" * 30_000_000
"""More than sockets buffer: a slow reader keeps the server sending."""


class Site:
    """An application whose slow page waits for the test, and where it listens."""

    def __init__(self) -> None:
        self.app = Flask(__name__)
        self.asked, self.answer = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.listener.getsockname()[1]
        self.app.get("/", endpoint="here")(lambda: "here")
        self.app.get("/large", endpoint="large")(lambda: BODY)
        self.app.get("/slow", endpoint="slow")(self._slow)
        self.app.get("/who", endpoint="who")(lambda: f"{request.remote_addr} {request.scheme} {request.headers}")

    def _slow(self) -> str:
        self.asked.set()
        assert self.answer.wait(60)
        return "at last"

    def serving(self, trusted_proxy=""):
        return serving(self.app, "127.0.0.1", self.port, self.listener.dup(), trusted_proxy)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        return connection

    def ask(self, path: str, **headers: str) -> http.client.HTTPConnection:
        connection = self.connect()
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return connection


def read(connection: http.client.HTTPConnection) -> bytes:
    with connection.getresponse() as answer:
        body = answer.read()
    connection.close()
    return body


@pytest.fixture
def patient(monkeypatch):
    """On a busy machine a moment is long."""
    monkeypatch.setattr("nightjar.coordinator.web.server.FRESH_S", 60)
    monkeypatch.setattr("nightjar.coordinator.web.server.DRAIN_S", 60)


@pytest.fixture
def site():
    made = Site()
    yield made
    made.answer.set()
    made.listener.close()


@pytest.mark.usefixtures("patient")
def test_an_answer_under_way_is_finished(site):
    with site.serving():
        slow = site.ask("/slow")
        assert site.asked.wait(60)
        threading.Timer(0.3, site.answer.set).start()
    assert read(slow) == b"at last"


@pytest.mark.usefixtures("patient")
def test_a_download_under_way_is_finished(site):
    with site.serving():
        download = site.ask("/large")
        answer = download.getresponse()
        begun = answer.read(1000)
        rest = []
        reader = threading.Timer(0.3, lambda: rest.append(answer.read()))
        reader.start()
    reader.join(60)
    answer.close()
    download.close()
    assert begun + rest[0] == BODY


@pytest.mark.usefixtures("patient")
def test_who_has_connected_before_the_end_may_still_ask(site):
    with site.serving():
        assert read(site.ask("/")) == b"here"
        connection = site.connect()
        threading.Timer(0.2, connection.request, ("GET", "/")).start()
    assert read(connection) == b"here"


def test_who_comes_after_the_end_waits_for_the_next_server(site):
    with site.serving():
        pass
    waiting = [site.ask("/") for _ in range(20)]
    with site.serving():
        assert [read(one) for one in waiting] == [b"here"] * 20


def test_an_answer_that_takes_for_ever_does_not_hold_up_the_end(site, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.web.server.DRAIN_S", 0.2)
    assert DRAIN_S > 1
    with site.serving():
        download = site.ask("/large")
        download.getresponse().read(1000)
    download.close()


def test_a_taken_port_is_said(site):
    with pytest.raises(ConfigError, match="give another port"), serving(site.app, "127.0.0.1", site.port):
        pass


@pytest.mark.parametrize("proxy", ["127.0.0.1", "*"])
def test_the_word_of_the_trusted_proxy_counts(site, proxy):
    with site.serving(proxy):
        said = read(site.ask("/who", X_Forwarded_For="203.0.113.7", X_Forwarded_Proto="https"))
    assert said.startswith(b"203.0.113.7 https ")


@pytest.mark.parametrize("proxy", ["", "192.0.2.1"])
def test_nobody_else_is_believed_about_who_asks(site, proxy):
    with site.serving(proxy):
        said = read(site.ask("/who", X_Forwarded_For="203.0.113.7", X_Forwarded_Proto="https"))
    assert said.startswith(b"127.0.0.1 http ")
    assert b"203.0.113.7" not in said


def test_only_the_last_of_a_row_of_addresses_is_believed(site):
    """Whoever asks may have written the others."""
    with site.serving("*"):
        said = read(site.ask("/who", X_Forwarded_For="198.51.100.1, 203.0.113.7"))
    assert said.startswith(b"203.0.113.7 ")


def test_who_sends_no_request_and_leaves_writes_no_traceback_into_the_log(site, monkeypatch, caplog):
    left, closed = threading.Event(), False

    def gone(_connection, _data):
        left.set()
        raise ClientDisconnected

    monkeypatch.setattr(HTTPChannel, "write_soon", gone)
    with site.serving(), socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        connection.sendall(b"\x00\x01\r\n\r\n")
        assert left.wait(60)
        connection.settimeout(10)
        with contextlib.suppress(TimeoutError):
            closed = connection.recv(1) == b""
    assert (closed, [record.message for record in caplog.records if record.exc_info]) == (True, [])
