"""A server of ours closes idle connections whatever the wall clock does."""

import socket
import time

import pytest
import waitress.channel
import waitress.server
from waitress.server import create_server

from nightjar.host.http_server import HttpServer
from tests.host.test_trusted_time import WRONG


def is_closed_in_time(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as idle:
        try:
            return idle.recv(1) == b""
        except TimeoutError:
            return False


@pytest.mark.parametrize("module", [waitress.channel, waitress.server])
def test_waitress_finds_a_steady_clock_under_both_names(module):
    before = time.monotonic()
    assert before <= module.time.time() <= module.time.monotonic() <= time.monotonic()


@pytest.mark.parametrize("wrong_by_s", WRONG.values(), ids=WRONG)
def test_idle_connections_are_closed_while_the_clock_is_wrong_and_after_it(monkeypatch, wrong_by_s):
    right, wrong = time.time, [0.0]  # noqa: TID251 - what waitress asks
    monkeypatch.setattr(time, "time", lambda: right() + wrong[0])
    connections = {}
    server = create_server(
        lambda *_: [], map=connections, host="127.0.0.1", port=0, channel_timeout=0.1, cleanup_interval=0.1, threads=1
    )
    running = HttpServer(server, connections, "test")
    try:
        assert is_closed_in_time(server.effective_port)
        wrong[0] = wrong_by_s
        assert is_closed_in_time(server.effective_port)
        wrong[0] = 0.0
        assert is_closed_in_time(server.effective_port)
    finally:
        running.close(10)
