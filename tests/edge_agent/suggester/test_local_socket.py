"""The Unix socket: lines in, lines out, for this user's programs, and not too many or too long."""

import contextlib
import json
import os
import socket
import stat
import threading

import pytest

from nightjar.edge_agent.shell.suggester import FOLDER, SOCKET, local_listener
from nightjar.edge_agent.suggester import local_socket
from nightjar.edge_agent.suggester.local_socket import MOST_CONNECTIONS, LocalServer
from nightjar.edge_agent.suggester.requests import MAX_LINE_BYTES, Learned, LearningPaused
from nightjar.host.unix_sockets import user_of


class Client:
    def __init__(self, path):
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(60)
        folder = os.open(path.parent, os.O_PATH)
        self.line.connect(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)
        self.answers = self.line.makefile("rb")

    def ask(self, line):
        self.line.sendall(line)
        return self.hear()

    def hear(self):
        return json.loads(self.answers.readline() or "null")

    def close(self):
        self.answers.close()
        self.line.close()


@pytest.fixture
def connect(tmp_path):
    listener = local_listener(tmp_path)
    LocalServer(listener, lambda line: Learned(kept=True, reason=line.decode()))
    clients = []

    def connected():
        clients.append(Client(tmp_path / FOLDER / SOCKET))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_each_line_is_answered_in_turn(connect):
    client, other = connect(), connect()
    assert client.ask(b"one\n")["reason"] == "one"
    assert other.ask(b"two\nthree\n")["reason"] == "two"
    assert other.hear()["reason"] == "three"
    assert client.ask(b"four\n")["reason"] == "four"


def test_socket_and_folder_are_closed_to_other_users(connect, tmp_path):
    assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / FOLDER / SOCKET).stat().st_mode) == 0o600


def test_a_socket_of_an_agent_that_was_killed_is_replaced_however_long_its_path(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    local_listener(folder).close()
    again = local_listener(folder)
    client = Client(folder / FOLDER / SOCKET)
    client.close()
    again.close()


def test_a_line_that_is_too_long_is_refused_and_ends_the_connection(connect):
    client = connect()
    assert client.ask(b"x" * (MAX_LINE_BYTES + 1))["error"] == f"expected a line of at most {MAX_LINE_BYTES} bytes"
    assert client.hear() is None
    assert connect().ask(b"one\n")["reason"] == "one"


def test_more_connections_than_there_are_threads_for_are_refused_in_words(connect):
    kept = [connect() for _ in range(MOST_CONNECTIONS)]
    assert [client.ask(b"one\n")["reason"] for client in kept] == ["one"] * MOST_CONNECTIONS
    refused = connect().hear()
    assert refused["code"] == "busy"
    kept[0].close()
    answer = None
    while not answer or "error" in answer:  # until the thread has noticed
        with contextlib.suppress(ConnectionError):  # refused, and closed before we asked
            answer = connect().ask(b"one\n")
    assert answer["reason"] == "one"


def test_another_users_program_is_refused(connect, monkeypatch):
    monkeypatch.setattr(local_socket, "user_of", lambda _: os.geteuid() + 1)
    assert connect().hear() == {"error": "expected a program of the user that the suggester runs as", "code": "user"}


def test_the_kernel_says_whose_program_it_is():
    ours, theirs = socket.socketpair()
    assert user_of(ours) == os.geteuid()
    ours.close()
    theirs.close()


def test_a_slow_answer_delays_no_other_connection(tmp_path):
    listener, free = local_listener(tmp_path), threading.Event()
    LocalServer(listener, lambda line: LearningPaused(paused=line == b"now" or free.wait(60)))
    slow, fast = Client(tmp_path / FOLDER / SOCKET), Client(tmp_path / FOLDER / SOCKET)
    slow.line.sendall(b"later\n")
    assert fast.ask(b"now\n") == {"paused": True}
    free.set()
    assert slow.hear() == {"paused": True}
    slow.close()
    fast.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
