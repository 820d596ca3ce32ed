"""Who may read pages on the loopback address without a token: processes of the service's own user, and no others."""

import os
import subprocess
import sys

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.web.server import COMMAND_OF, asked_by_this_user, serving
from nightjar.host.local_peers import user_of_connection

ASK = """
import encodings.idna, os, socket, sys
if sys.argv[2] != "same":
    os.setuid(int(sys.argv[2]))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
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


def asked(port: int, user: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, str(port), user], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_this_user_reads(port):
    assert asked(port, "same") == "True"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as another user")
def test_another_user_of_the_machine_does_not_read(port):
    assert asked(port, "65534") == "False"


def test_a_connection_that_nobody_has_is_nobodys():
    (unused,) = free_ports(1)
    assert user_of_connection("127.0.0.1", unused) is None
    assert user_of_connection("::1", unused) is None
    assert user_of_connection("not an address", 1) is None
    assert not asked_by_this_user({"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": str(unused)})
    assert not asked_by_this_user({})
    assert not asked_by_this_user({"REMOTE_ADDR": "localhost", "REMOTE_PORT": "None"})  # of a socket without ports
    assert asked_by_this_user({"REMOTE_ADDR": "localhost", "REMOTE_PORT": "None", COMMAND_OF: "anna"})
