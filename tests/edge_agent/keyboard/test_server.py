from __future__ import annotations

import http.client
import socket
import threading

import pytest

from edge_agent.keyboard.app import create_app
from edge_agent.keyboard.server import Serving, serve
from wire.errors import ConfigError


def get(serving: Serving, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(serving.host, serving.port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.fixture
def app(bench):
    return create_app(bench.suggester, bench.store, lambda: bench.about)


def test_served_page_can_be_fetched(served):
    status, body = get(served, "/")
    assert status == 200
    assert b"Nightjar keyboard" in body
    assert served.url == f"http://127.0.0.1:{served.port}/"


def test_taken_port_says_what_to_do(app, served):
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1 port {served.port}.*\[keyboard\]"):
        serve(app, "127.0.0.1", served.port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("203.0.113.1", 0)])
def test_impossible_address_is_a_config_error(app, host, port):
    with pytest.raises(ConfigError, match=r"expected .* keyboard"):
        serve(app, host, port)


def test_close_frees_the_port_ends_the_threads_and_may_be_repeated(app):
    before = threading.active_count()
    serving = serve(app, "127.0.0.1", 0)
    assert get(serving, "/")[0] == 200
    idle = socket.create_connection((serving.host, serving.port))  # a browser that keeps its connection open
    serving.close()
    serving.close()
    idle.close()
    assert threading.active_count() == before
    again = serve(app, serving.host, serving.port)
    assert get(again, "/")[0] == 200
    again.close()


def test_wildcard_address_is_printed_as_one_that_opens(app):
    serving = serve(app, "0.0.0.0", 0)
    serving.close()
    assert serving.url == f"http://127.0.0.1:{serving.port}/"
