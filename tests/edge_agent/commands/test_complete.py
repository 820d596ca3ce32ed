"""The pipe: text in, completions out, and no typed text in an error."""

import json

import pytest
import structlog
from click.testing import CliRunner

from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.commands.complete import read_end
from nightjar.edge_agent.shell.suggester import FOLDER, SOCKET, local_listener
from nightjar.edge_agent.suggester.local_socket import LocalServer
from nightjar.edge_agent.suggester.requests import RequestError, Words


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
    socket = tmp_path / "data" / FOLDER / SOCKET
    environment = {"NIGHTJAR_SUGGESTER_SOCKET": str(socket if text == "busy" else tmp_path / "none")}
    done = run(text, environment=environment)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "suggester" in done.stderr
    assert "secret" not in done.stderr.replace(str(tmp_path), "")


@pytest.mark.parametrize("data", [b"", b"\n", b"\xff\xfe", b"x" * 10_000, "\ud83d".encode("utf-8", "surrogatepass")])
def test_any_bytes_are_a_text(data):
    assert len(read_end(data)) <= 2_000
