import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.shell.service_manager import ALIVE, READY, given_listener, say

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from coordinator.shell.service_manager import given_listener
from wire.errors import ConfigError
try:
    found = given_listener(os.environ, "127.0.0.1", int(sys.argv[1]))
except ConfigError as error:
    print("refused:", error)
else:
    print("none" if found is None else "listener", os.get_inheritable(3))
    if found is not None:
        found.close()
"""


def as_systemd(listener: socket.socket, port: int, **environment: str) -> str:
    """What a process says that is started as systemd does it: the socket is descriptor 3, and its id is known to it."""
    given = {"LISTEN_FDS": "1", "LISTEN_PID": "$$", **environment}
    exports = " ".join(f"{name}={value}" for name, value in given.items())
    script = f'{exports} exec "$@" 3<&{listener.fileno()}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", PROGRAM, str(port)],
        pass_fds=[listener.fileno()],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return done.stdout.strip()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def port_of(listener):
    return listener.getsockname()[1]


def test_a_socket_of_systemd_is_taken_and_not_handed_on(listener):
    assert as_systemd(listener, port_of(listener)) == "listener False"


def test_a_socket_for_another_process_is_left_alone(listener):
    assert as_systemd(listener, port_of(listener), LISTEN_PID="1") == "none True"


def test_several_sockets_are_refused(listener):
    assert as_systemd(listener, port_of(listener), LISTEN_FDS="2").startswith("refused: expected one socket")


def test_a_socket_that_listens_elsewhere_is_refused(listener):
    """Who may look without a token depends on the configured address, so it must be the real one."""
    said = as_systemd(listener, port_of(listener) + 1)
    assert said.startswith("refused: the socket from systemd listens on")
    assert "ListenStream=" in said


def test_without_systemd_there_is_no_socket_and_nobody_is_told(tmp_path):
    assert given_listener({"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1"}, "127.0.0.1", 1) is None
    assert given_listener({}, "127.0.0.1", 1) is None
    for address in ("", str(tmp_path / "nobody"), "@nobody-there"):
        say(READY, {"NOTIFY_SOCKET": address})


@pytest.mark.parametrize("abstract", [False, True])
def test_signs_of_life_arrive(tmp_path, abstract):
    address = f"@nightjar-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind("\0" + address[1:] if abstract else address)
        line.settimeout(10)
        say(READY, {"NOTIFY_SOCKET": address})
        assert line.recv(100) == b"READY=1"


def test_a_systemd_that_does_not_read_holds_nobody_up(tmp_path):
    address = str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(address)
        for _ in range(10_000):  # far more than a queue of the kernel holds
            say(ALIVE, {"NOTIFY_SOCKET": address})
        assert line.recv(100) == b"WATCHDOG=1"
