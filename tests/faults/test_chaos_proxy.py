"""The proxy does to a connection what a test asks for, and nothing else."""

import contextlib
import socket
import socketserver
import threading
import time

import pytest

from tests.faults.chaos_proxy import HEALTHY, Fault, chaos

MESSAGE = bytes(range(256)) * 40


class _Echo(socketserver.BaseRequestHandler):
    def handle(self):
        with contextlib.suppress(OSError):
            while data := self.request.recv(4096):
                self.server.got += len(data)
                self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    got = 0


@pytest.fixture
def server():
    with _Server(("127.0.0.1", 0), _Echo) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


@pytest.fixture
def proxy(server):
    with chaos(server.server_address[1]) as one:
        yield one


def connect(proxy):
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=20)
    return contextlib.closing(connection)


def echo(connection, message=MESSAGE):
    """Seconds until all of it came back."""
    begun = time.monotonic()
    connection.sendall(message)
    got = b""
    while len(got) < len(message):
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("closed")
        got += piece
    assert got == message
    return time.monotonic() - begun


def test_a_healthy_network_changes_nothing(proxy):
    with connect(proxy) as connection:
        echo(connection)
    assert (proxy.accepted, proxy.cuts, proxy.upstream_bytes) == (1, 0, len(MESSAGE))


def test_a_delay_and_a_rate_make_it_slower_by_so_much_at_least(proxy):
    with connect(proxy) as connection:
        echo(connection)
        proxy.fault = Fault(delay_s=0.1)
        assert echo(connection, b"small") >= 0.2, "there and back"
        proxy.fault = Fault(rate_bytes_per_s=40_000)
        assert echo(connection) >= len(MESSAGE) / 40_000
        proxy.fault = HEALTHY
        echo(connection)


def test_an_upload_is_cut_after_so_many_bytes_and_the_next_connection_as_well(proxy, server):
    proxy.fault = Fault(cut_after_bytes=5000)
    for count in (1, 2):
        with connect(proxy) as connection, pytest.raises(ConnectionError):
            echo(connection)
        assert proxy.cuts == count
        assert server.got <= 5000 * count, "a reset may lose even what was passed on"
    proxy.fault = HEALTHY
    with connect(proxy) as connection:
        echo(connection)


def test_a_black_hole_swallows_silently_and_what_was_swallowed_comes_when_it_ends(proxy, server):
    with connect(proxy) as connection:
        proxy.fault = Fault(black_hole=True)
        connection.sendall(MESSAGE)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert server.got == 0
        proxy.fault = HEALTHY
        connection.settimeout(20)
        assert connection.recv(1) == MESSAGE[:1], "as TCP does: it had waited"


def test_refusing_cuts_what_stands_and_lets_nobody_in(proxy):
    with connect(proxy) as connection:
        echo(connection)
        proxy.fault = Fault(refuse=True)
        with pytest.raises(ConnectionError):
            echo(connection)
    with connect(proxy) as connection, pytest.raises(ConnectionError):
        echo(connection)
    proxy.fault = HEALTHY
    with connect(proxy) as connection:
        echo(connection)


def test_a_target_that_is_down_ends_the_connection(proxy):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        free = nobody.getsockname()[1]
    proxy.target = free
    with connect(proxy) as connection, pytest.raises(ConnectionError):
        echo(connection)
