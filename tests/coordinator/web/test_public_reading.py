"""Who may read pages on the loopback address without a token: processes of the service's own user, and no others."""

import contextlib
import os
import socket
import subprocess
import sys

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.tls.front import OUR_END
from nightjar.coordinator.web.server import COMMAND_OF, asked_by_this_user, serving
from nightjar.host import local_peers
from nightjar.host.local_peers import user_of_connection
from tests.skips import NOT_ALLOWED

IP_LOCAL_PORT_RANGE = 51  # linux/in.h, since Linux 6.3; Python has no name for it
ASK = f"""
import encodings.idna, os, socket, sys
if sys.argv[2] != "same":
    os.setuid(int(sys.argv[2]))
with socket.socket() as connection:
    if len(sys.argv) > 3:
        port = int(sys.argv[3])
        connection.setsockopt(socket.IPPROTO_IP, {IP_LOCAL_PORT_RANGE}, (port | port << 16).to_bytes(4, sys.byteorder))
    connection.connect(("127.0.0.1", int(sys.argv[1])))
    connection.sendall(b"GET / HTTP/1.0" + bytes([13, 10, 13, 10]))
    with connection.makefile("r") as answer:
        print(answer.read().split()[-1])
"""


@pytest.fixture
def port():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [str(asked_by_this_user(environ)).encode()]

    (free,) = free_ports(1)
    with serving(app, "127.0.0.1", free):
        yield free


def asked(port: int, user: str, *from_port: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, str(port), user, *from_port], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_this_user_reads(port):
    assert asked(port, "same") == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_another_user_of_the_machine_does_not_read(port):
    assert asked(port, "65534") == "False"


def has_local_port_range() -> bool:
    with socket.socket() as each:
        try:
            each.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, bytes(4))
        except OSError:
            return False
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
@pytest.mark.skipif(not has_local_port_range(), reason=f"{NOT_ALLOWED} choose a port that is in use")
def test_another_user_does_not_read_from_a_port_that_this_user_has_elsewhere(port):
    """As the service's own connection to its broker is: anybody can look its port up, and connect from it, too."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        ours = [stack.enter_context(socket.create_connection(listener.getsockname())) for _ in range(8)]
        ports = [str(each.getsockname()[1]) for each in ours]
        # Each has even odds of being found first in the kernel's table.
        assert {asked(port, "65534", each) for each in ports} == {"False"}


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:A3FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 1 1 0 100 0 0 10 0
   1: 0100007F:A3FB 0100007F:D602 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
   2: 0100007F:A3FB 0100007F:1F40 01 00000000:00000000 00:00000000 00000000 65534        0 2 1 0 100 0 0 10 0
   3: 0100007F:1F40 0100007F:A3FB 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 100 0 0 10 0
"""


def test_a_connection_that_nobody_accepted_yet_does_not_count_as_roots(tmp_path, monkeypatch):
    """Before Linux 6.18, which shows the listener's user, another user's own listener could be that of its port."""
    (tmp_path / "tcp").write_text(TABLE)
    monkeypatch.setattr(local_peers, "_TABLES", {4: tmp_path / "tcp"})
    assert user_of_connection(("127.0.0.1", 0xA3FB), ("127.0.0.1", 8000)) == 65534


def test_a_connection_that_nobody_has_is_nobodys():
    (unused,) = free_ports(1)
    for address in ("127.0.0.1", "::1", "not an address"):
        assert user_of_connection((address, unused), (address, unused)) is None
    here, without_ports = {"REMOTE_ADDR": "127.0.0.1"}, {"REMOTE_ADDR": "localhost", "REMOTE_PORT": "None"}
    requests = [
        here | {"REMOTE_PORT": str(unused)},
        here | {"REMOTE_PORT": str(unused), OUR_END: ("127.0.0.1", 1)},
        {},
        without_ports,  # of a socket for commands, but for its operator
        without_ports | {COMMAND_OF: "anna"},
    ]
    assert [asked_by_this_user(each) for each in requests] == [False, False, False, False, True]
