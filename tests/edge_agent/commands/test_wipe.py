import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner

from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.shell.model_files import PERSONAL

ROOT = Path(__file__).parents[3]
SECRET = "zyzzyva crwth"


def bytes_below(folder):
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a running agent puts files in place of others
            found.append(path.read_bytes() if path.is_file() else b"")
    return b"".join(found)


def test_nothing_of_what_was_typed_is_left_in_any_byte(place):
    place.move_in(*(f"{SECRET} again {'i ' * number}" for number in range(300)))
    assert SECRET.encode() in bytes_below(place.data)
    assert place.json("wipe", "--yes") == {"messages": 300, "by_agent": False}
    assert SECRET.encode() not in bytes_below(place.data)
    assert place.json("status", status=4)["messages"] == 0


def test_weights_that_came_of_what_was_typed_go_too(place):
    place.move_in(SECRET)
    (place.data / "artifacts").mkdir()
    (place.data / "artifacts" / f"abc{PERSONAL}").write_bytes(b"learned")
    place.run("wipe", "--yes")
    assert list((place.data / "artifacts").iterdir()) == []


def test_it_asks_first(place):
    place.move_in(SECRET)
    done = CliRunner().invoke(main, ["wipe", "--config", str(place.config)], input="n\n")
    structlog.reset_defaults()
    assert done.exit_code == 1
    assert SECRET.encode() in bytes_below(place.data)


def test_where_nothing_is_there_is_nothing_to_delete(place):
    assert place.json("wipe", "--yes") == {"messages": 0, "by_agent": False}
    assert not place.data.exists()


@pytest.mark.tflite
def test_a_running_agent_is_asked_and_does_it(place):
    place.move_in(SECRET, SECRET + " again")
    with contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(place.config)]
        agent = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        stack.callback(agent.kill)
        lines = iter(agent.stderr.readline, "")
        assert any("event=broker_unreachable" in line for line in lines)
        reader = threading.Thread(target=lambda: list(lines), daemon=True)
        reader.start()
        assert place.json("status")["pid"] == agent.pid
        assert place.json("wipe", "--yes") == {"messages": 2, "by_agent": True}
        assert SECRET.encode() not in bytes_below(place.data)
        assert place.json("status")["messages"] == 0
        agent.terminate()
        assert agent.wait(120) == 0
        reader.join(120)
    assert SECRET.encode() not in bytes_below(place.data)
