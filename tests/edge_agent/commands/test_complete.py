"""The pipe: text in, completions out, and no typed text in an error."""

import contextlib
import io
import json
import os
import socket
import subprocess
import time
import tracemalloc
from threading import Thread

import pytest
import structlog
from click.testing import CliRunner

from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.commands import complete as module
from nightjar.edge_agent.commands.complete import read_end
from nightjar.edge_agent.shell.suggester import FOLDER, SOCKET, local_listener
from nightjar.edge_agent.suggester.local_socket import LocalServer
from nightjar.edge_agent.suggester.requests import RequestError, Words
from nightjar.host.children import python_command
from nightjar.wire.errors import UnavailableError


@pytest.fixture
def asked(tmp_path):
    """What a suggester was asked, which knows two words; in a data folder of a configuration."""
    requests = []

    def answer(line):
        requests.append(json.loads(line))
        if requests[-1]["text"] == "busy":
            return RequestError("expected at most 16 connections; close one and try again", "busy")
        return Words(("hel", "hello", "help", "held"), 1, "", "hel")

    (tmp_path / "agent.toml").write_text('data_dir = "data"\n')
    (tmp_path / "data").mkdir()
    listener = local_listener(tmp_path / "data")
    LocalServer(listener, answer)
    yield requests
    listener.shutdown(2)
    listener.close()


def run(text, *options, environment=None):
    try:
        return CliRunner().invoke(main, ["complete", *options], input=text, env=environment)
    finally:
        structlog.reset_defaults()


def test_completions_come_one_a_line_without_what_was_typed(asked, tmp_path):
    done = run("say hel\n", "--config", str(tmp_path / "agent.toml"), "--language", "en")
    assert (done.exit_code, done.stdout) == (0, "hello\nhelp\nheld\n")
    assert asked == [{"do": "suggest", "text": "say hel", "count": 4, "language": "en"}]
    assert run("hel", "--config", str(tmp_path / "agent.toml"), "--count", "1").stdout == "hello\n"


def test_without_a_configuration_it_asks_whom_the_ibus_engine_asks(asked, tmp_path):
    environment = {"NIGHTJAR_SUGGESTER_SOCKET": str(tmp_path / "data" / FOLDER / SOCKET)}
    assert run("hel", environment=environment).stdout == "hello\nhelp\nheld\n"


@pytest.mark.parametrize("text", ["busy", "secret"])
def test_a_suggester_that_does_not_answer_is_named_and_typed_text_is_not(asked, tmp_path, text):
    path = tmp_path / "data" / FOLDER / SOCKET
    environment = {"NIGHTJAR_SUGGESTER_SOCKET": str(path if text == "busy" else tmp_path / "none")}
    done = run(text, environment=environment)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "suggester" in done.stderr
    assert "secret" not in done.stderr.replace(str(tmp_path), "")


BYTES = [
    b"",
    b"\n",
    b"\xff\xfe",
    b"x" * 10_000_000,
    "\ud83d".encode("utf-8", "surrogatepass"),
    "\U0001f600".encode() * 9_999,
]


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
def test_any_bytes_are_a_text_of_which_the_end_counts(data):
    whole = data.decode(errors="ignore").removesuffix("\n")
    assert read_end(io.BytesIO(data)) == whole[-2_000:]


def test_of_an_endless_input_only_the_end_is_in_memory():
    class Endless(io.RawIOBase):
        left = 1_000

        def read(self, size):
            self.left -= 1
            return b"how " * (size // 4) if self.left else b""

    tracemalloc.start()
    try:
        assert read_end(Endless()).endswith("how ")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_closed_input_is_an_empty_text():
    assert read_end(None) == ""


class Unreadable(io.RawIOBase):
    def read(self, _size):
        raise IsADirectoryError(21, "Is a directory")


def test_an_input_that_cannot_be_read_is_named():
    with pytest.raises(UnavailableError, match="standard input"):
        read_end(Unreadable())


def drip(connection):
    while True:
        connection.sendall(b"x")
        time.sleep(0.01)


ANSWERS = {
    "no text": lambda connection: connection.sendall(b'{"words": ["\xff\xfe"]}\n'),
    "deep": lambda connection: connection.sendall(b"[" * 60_000 + b"\n"),
    "endless": lambda connection: [connection.sendall(b"x" * 65_536) for _ in range(1_600)],
    "byte by byte": drip,
    "none": lambda connection: connection.recv(1),
    "gone": lambda connection: None,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_whatever_a_suggester_answers_a_keyboard_waits_only_a_moment(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    begun_s = time.monotonic()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.recv(65_536)
                answer(connection)

        Thread(target=serve, daemon=True).start()
        with pytest.raises(UnavailableError, match="suggester"):
            module.complete(tmp_path / "socket", "secret", 3, "")
    assert time.monotonic() - begun_s < 10.0, "on a busy machine; one that answers byte by byte never ends"


def test_a_language_that_is_no_text_is_refused_in_words(asked, tmp_path):
    done = run("hel", "--config", str(tmp_path / "agent.toml"), "--language", "\udcff")
    assert (done.exit_code, done.stdout) == (3, "")


def test_a_word_that_the_output_cannot_express_is_left_out(tmp_path):
    (tmp_path / "data").mkdir()
    listener = local_listener(tmp_path / "data")
    LocalServer(listener, lambda _: Words(("\u0645\u0631\u062d\u0628\u0627", "caf\xe9"), 1, "", ""))
    environment = {**os.environ, "NIGHTJAR_SUGGESTER_SOCKET": str(tmp_path / "data" / FOLDER / SOCKET)}
    done = subprocess.run(
        python_command("-m", "nightjar.edge_agent", "complete"), input=b"", capture_output=True, check=True,
        env={**environment, "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    listener.shutdown(2)
    listener.close()
    assert done.stdout == "caf\xe9\n".encode("latin-1")
