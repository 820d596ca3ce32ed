import socket
import subprocess
import sys

from nightjar.coordinator.mqtt.free_ports import free_ports, reserve


def test_what_one_process_found_free_no_other_finds_until_it_ends():
    ask = "from nightjar.coordinator.mqtt.free_ports import free_ports; print(*free_ports(1), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", ask], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        port = int(other.stdout.readline())
        assert not reserve(port)
        other.communicate("\n")
    assert reserve(port)
    assert not reserve(port)


def test_where_somebody_listens_nothing_is_reserved():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not reserve(server.getsockname()[1])


def test_a_server_starts_on_a_reserved_port():
    (port,) = free_ports(1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        socket.create_connection(server.getsockname()).close()
