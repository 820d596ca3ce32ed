import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.host.systemd import ServiceManager, given_listener

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
from nightjar.host.systemd import given_listener
from nightjar.wire.errors import ConfigError
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


def test_without_systemd_there_is_no_socket():
    assert given_listener({"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1"}, "127.0.0.1", 1) is None
    assert given_listener({}, "127.0.0.1", 1) is None


def test_ready_once_then_a_sign_of_life_in_every_third_of_the_watchdogs_time(line):
    now_s = [100.0]
    manager = ServiceManager(line.environment, lambda: now_s[0])
    manager.turned()
    assert line.heard() == ["READY=1"]
    for _ in range(40):
        now_s[0] += 0.1
        manager.turned()
    assert line.heard() == ["WATCHDOG=1"] * 3
    manager.stopping()
    assert line.heard() == ["STOPPING=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "@nobody-there"}])
def test_without_systemd_nothing_happens(environment):
    manager = ServiceManager(environment)
    manager.turned()
    manager.turned()
    manager.stopping()


def test_without_a_watchdog_there_are_no_signs_of_life(line):
    manager = ServiceManager({"NOTIFY_SOCKET": line.environment["NOTIFY_SOCKET"]})
    manager.turned()
    manager.turned()
    assert line.heard() == ["READY=1"]


def test_the_status_text_is_sent_when_it_changes(line):
    manager = ServiceManager({"NOTIFY_SOCKET": line.environment["NOTIFY_SOCKET"]})
    for status in ("", "off", "off", "on", "on", "off"):
        manager.turned(status)
    assert line.heard() == ["READY=1", "STATUS=off", "STATUS=on", "STATUS=off"]


@pytest.mark.parametrize("abstract", [False, True])
def test_signs_of_life_arrive(tmp_path, abstract):
    address = f"@nightjar-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind("\0" + address[1:] if abstract else address)
        line.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": address}).turned()
        assert line.recv(100) == b"READY=1"


def test_a_systemd_that_does_not_read_holds_nobody_up(line):
    manager = ServiceManager({**line.environment, "WATCHDOG_USEC": "1"})
    for _ in range(10_000):  # far more than a queue of the kernel holds
        manager.turned()
    assert line.heard()[1] == "WATCHDOG=1"


STORED = """
import os, sys
from nightjar.host.systemd import stored_listener
found = stored_listener(os.environ, "keyboard", "127.0.0.1", int(sys.argv[1]))
print("none" if found is None else f"{found.fileno()} {os.get_inheritable(3)}")
"""


@pytest.mark.parametrize(
    ("environment", "elsewhere", "found"),
    [
        ({"LISTEN_FDNAMES": "keyboard"}, 0, "3 False"),
        ({"LISTEN_FDNAMES": "keyboard"}, 1, "none"),
        ({"LISTEN_FDNAMES": "another"}, 0, "none"),
        ({}, 0, "none"),
        ({"LISTEN_FDNAMES": "keyboard", "LISTEN_PID": "1"}, 0, "none"),
    ],
)
def test_the_socket_that_was_left_with_systemd_is_taken_up_unless_the_port_has_changed(
    listener, environment, elsewhere, found
):
    given = {"LISTEN_FDS": "1", "LISTEN_PID": "$$", **environment}
    exports = " ".join(f"{name}={value}" for name, value in given.items())
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'{exports} exec "$@" 3<&{listener.fileno()}',
            "bash",
            sys.executable,
            "-c",
            STORED,
            str(port_of(listener) + elsewhere),
        ],
        pass_fds=[listener.fileno()],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == found


def test_a_socket_that_is_left_with_systemd_listens_after_its_process_has_ended(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(str(tmp_path / "n"))
        line.settimeout(10)
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "n")}).store(listener, "keyboard")
        listener.close()
        assert line.recv(100) == b"FDSTOREREMOVE=1\nFDNAME=keyboard"
        message, (descriptor,), *_ = socket.recv_fds(line, 100, 1)
        assert message == b"FDSTORE=1\nFDNAME=keyboard"
        with pytest.raises(OSError, match="in use"):  # so another user cannot listen there either
            socket.create_server(address)
        socket.create_connection(address, 10).close()
        socket.socket(fileno=descriptor).close()
