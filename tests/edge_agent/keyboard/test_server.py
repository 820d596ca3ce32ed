from __future__ import annotations

import http.client
import socket
import threading

import pytest

from nightjar.edge_agent.keyboard.server import Serving
from nightjar.edge_agent.shell.suggester import page_listener
from nightjar.wire.errors import ConfigError


def get(serving: Serving, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
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


def test_taken_port_says_what_to_do(served):
    with pytest.raises(ConfigError, match=rf"127\.0\.0\.1 port {served.port}.*\[keyboard\]"):
        page_listener(served.port)


def test_close_frees_the_port_ends_the_threads_and_may_be_repeated(app):
    before = set(threading.enumerate())
    serving = Serving(app, page_listener(0))
    assert get(serving, "/")[0] == 200
    idle = socket.create_connection(("127.0.0.1", serving.port))  # a browser that keeps its connection open
    serving.close()
    serving.close()
    idle.close()
    assert set(threading.enumerate()) <= before
    again = Serving(app, page_listener(serving.port))
    assert get(again, "/")[0] == 200
    again.close()
