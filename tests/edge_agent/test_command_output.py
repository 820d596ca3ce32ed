"""What the real commands do where their output takes nothing: a full disk, a reader that has gone, none at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.edge_agent.shell.suggester import FOLDER, SOCKET, local_listener
from nightjar.edge_agent.suggester.local_socket import LocalServer
from nightjar.edge_agent.suggester.requests import Words

ROOT = Path(__file__).parents[2]
AGENT = (sys.executable, "-m", "nightjar.edge_agent")
COMMANDS = [["complete"], ["example"], ["plugins", "--json"], ["--help"], ["--version"]]
FULL = "nightjar-agent: expected a standard output that can be written, got: No space left on device; is a disk full?\n"


@pytest.fixture
def environment(tmp_path):
    """Of a person whose suggester knows a word."""
    (tmp_path / "data").mkdir()
    listener = local_listener(tmp_path / "data")
    LocalServer(listener, lambda _: Words(("hello",), 1, "", "hel"))
    yield {"NIGHTJAR_SUGGESTER_SOCKET": str(tmp_path / "data" / FOLDER / SOCKET), "PYTHONPATH": str(ROOT)}
    listener.shutdown(2)
    listener.close()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("output", "status", "said"), [("> /dev/full", 3, FULL), ("| true", 1, ""), (">&-", 0, "")])
def test_a_command_whose_output_takes_nothing_ends_without_a_traceback(environment, command, output, status, said):
    # Of a reader that has gone nothing is told before something is written, so this one goes first.
    script = f'exec 3> >(true); wait $!; exec "$@" {">&3" if output == "| true" else output}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *AGENT, *command],
        cwd=ROOT, env=environment, input="hel", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)
