"""The socket through which commands ask the service: for its owner only, and made anew by each service."""

import http.client
import os
import socket
import stat
import subprocess
import sys

import pytest
from flask import Flask, request

from nightjar.coordinator.control_socket import FILE, OPERATOR, connected, listening
from nightjar.coordinator.web.admission import COMMAND_OF
from nightjar.coordinator.web.server import serving_commands
from nightjar.host.unix_sockets import MOST_PATH_BYTES
from nightjar.wire.errors import UnavailableError

TIMEOUT_S = 60


def test_the_socket_is_for_its_owner_only_and_goes_with_the_service(tmp_path):
    with listening(tmp_path):
        mode = (tmp_path / FILE).stat().st_mode
        assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
    assert not (tmp_path / FILE).exists()


def test_the_socket_of_a_killed_service_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / FILE))
    with pytest.raises(UnavailableError, match="'serve'"):
        connected(tmp_path, TIMEOUT_S)
    with listening(tmp_path) as listener, connected(tmp_path, TIMEOUT_S) as line:
        line.sendall(b"x")
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(1) == b"x"


def test_another_file_of_that_name_is_put_away(tmp_path):
    (tmp_path / FILE).write_text("notes")
    with listening(tmp_path):
        connected(tmp_path, TIMEOUT_S).close()
    assert (tmp_path / "put-away" / f"{FILE}.1").read_text() == "notes"


def test_a_folder_with_a_long_path_has_a_socket_too(tmp_path):
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    assert len(os.fsencode(folder / FILE)) > MOST_PATH_BYTES
    with listening(folder), connected(folder, TIMEOUT_S):
        assert (folder / FILE).exists()
    assert not (folder / FILE).exists()


def test_without_a_service_it_is_said_how_to_start_it(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UnavailableError, match="'serve'"):
            connected(folder, TIMEOUT_S)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_told_who_may_ask(tmp_path):
    asks = (
        "import os, sys\nfrom pathlib import Path\nfrom nightjar.coordinator.control_socket import connected\n"
        "os.setgid(65534)\nos.setuid(65534)\nconnected(Path(sys.argv[1]), 60)\n"
    )
    with listening(tmp_path):
        child = subprocess.run(
            [sys.executable, "-c", asks, tmp_path], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    assert "ConfigError" in child.stderr
    assert "for the coordinator's own user and for root" in child.stderr


def test_a_request_has_the_name_of_its_operator(tmp_path):
    app = Flask(__name__)
    app.get("/")(lambda: str(request.environ.get(COMMAND_OF)))
    with serving_commands(app, tmp_path):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = connected(tmp_path, TIMEOUT_S)
        connection.request("GET", "/", headers={OPERATOR: "Zo%C3%AB%20M"})
        assert connection.getresponse().read().decode() == "Zoë M"
        connection.close()
