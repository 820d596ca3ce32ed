"""The fuzzer over sockets: what it sends, what it keeps, and that it sees a process that is not well."""

import random
import subprocess
import sys

import msgspec
import pytest

from tests.fuzz import sockets
from tests.fuzz.sequences import Script
from tests.fuzz.sockets import Defect, Guided, attempt, keyboard_app, paths_of, publish, raw, request, running, status
from tests.fuzz.traced import SIZE


@pytest.fixture(autouse=True)
def _found_scripts_go_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "FOUND", tmp_path / "fuzz")
    monkeypatch.setattr(sockets, "CORPUS", tmp_path / "fuzz" / "sockets")


def test_every_script_is_a_request_and_packets():
    rng, paths = random.Random(0), paths_of(keyboard_app())
    assert "/api/messages" in paths
    for _ in range(500):
        script = Script(rng.randbytes(200))
        assert isinstance(request(script, paths), bytes)
        assert publish(script)[0] >> 4 == 3
        assert len(raw(script)) >= 2


def test_an_answer_without_a_status_line_is_none():
    assert [status(b"HTTP/1.1 404 Not Found\r\n"), status(b"HTTP/2 200"), status(b"")] == [404, 0, 0]


def test_scripts_that_led_to_new_lines_are_kept_and_tried_first_the_next_time():
    guided = Guided(1)
    guided.learn(b"old", 0)
    guided.learn(b"new", 3)
    again = Guided(2)
    assert [path.read_bytes() for path in sockets.CORPUS.iterdir()] == [b"new"]
    assert again.next() == b"new"
    assert len({again.next() for _ in range(50)}) > 10


def test_the_lines_that_a_module_executes_are_marked(tmp_path):
    path = tmp_path / "map"
    path.write_bytes(bytes(SIZE))
    command = [sys.executable, "-m", "tests.fuzz.traced", str(path), "nightjar.edge_agent", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=sockets.ROOT)
    assert "nightjar-agent" in done.stdout
    assert sum(path.read_bytes()) > 50


@pytest.mark.slow
@pytest.mark.broker
def test_scripts_leave_both_well_and_what_ends_one_is_kept(tmp_path):
    rng, scripts = random.Random(3), []
    with running() as found:
        for _ in range(3):
            scripts.append(rng.randbytes(150))
            attempt(found, scripts)
        found.agent.process.kill()
        found.agent.process.wait()
        with pytest.raises(Defect, match=r"nightjar\.edge_agent ended with -9"):
            attempt(found, scripts)
    (kept,) = (each for each in sockets.FOUND.iterdir() if each.is_file())
    assert msgspec.msgpack.decode(kept.read_bytes()) == scripts
