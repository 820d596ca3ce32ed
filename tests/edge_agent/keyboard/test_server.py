from __future__ import annotations

import http.client
import socket
import threading

import pytest

from edge_agent.keyboard.server import Serving, serve
from wire.errors import ConfigError


def get(serving: Serving, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(serving.host, serving.port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.fixture
def app(bench):
    return bench.app()


def test_served_page_can_be_fetched(served):
    status, body = get(served, "/")
    assert status == 200
    assert b"Nightjar keyboard" in body
    assert served.url == f"http://127.0.0.1:{served.port}/"


def test_taken_port_says_what_to_do(app, served):
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1 port {served.port}.*\[keyboard\]"):
        serve(app, "127.0.0.1", served.port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -1), ("127.0.0.1", 65_536)])
def test_impossible_address_is_a_config_error(app, host, port):
    with pytest.raises(ConfigError, match=r"expected .* keyboard"):
        serve(app, host, port)


def test_close_frees_the_port_ends_the_threads_and_may_be_repeated(app):
    before = set(threading.enumerate())
    serving = serve(app, "127.0.0.1", 0)
    assert get(serving, "/")[0] == 200
    idle = socket.create_connection((serving.host, serving.port))  # a browser that keeps its connection open
    serving.close()
    serving.close()
    idle.close()
    assert set(threading.enumerate()) <= before
    again = serve(app, serving.host, serving.port)
    assert get(again, "/")[0] == 200
    again.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "phone.local", ""])
def test_an_address_that_others_reach_is_refused_with_a_way_out(app, host):
    with pytest.raises(ConfigError, match=r"loopback.*ssh -L 8700:127\.0\.0\.1:8700"):
        serve(app, host, 0)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2"])
def test_any_loopback_address_will_do(app, host):
    serving = serve(app, host, 0)
    serving.close()
    assert serving.url == f"http://{host}:{serving.port}/"
