"""Machines that are shell scripts: how they are listened to, and that none is left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightjar.firmware_scripts.twin import process
from nightjar.firmware_scripts.twin.process import BOOTED, Qemu
from nightjar.wire.errors import UnavailableError
from tests.processes import is_alive

LONG_S = 60.0


@pytest.fixture(autouse=True)
def any_program(monkeypatch):
    monkeypatch.setattr(process, "require", lambda *_: None)


def machine(folder, script):
    return Qemu(["/bin/sh", "-c", script], folder / "console.log")


def until(condition):
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_up_when_its_console_says_so(tmp_path):
    with machine(tmp_path, "printf 'a\\033[0m\\r\\n'; echo '[ 1.0] echo: nightjar: booted'; sleep 60") as running:
        assert 0 <= running.wait_for(BOOTED, LONG_S) < LONG_S
        assert running.running()
    assert not is_alive(running.pid)
    assert b"booted" in (tmp_path / "console.log").read_bytes()


def test_one_that_ends_early_is_said_with_its_last_words(tmp_path):
    with machine(tmp_path, "echo Kernel panic") as running, pytest.raises(UnavailableError, match="Kernel panic"):
        running.wait_for(BOOTED, LONG_S)


def test_one_that_says_nothing_is_given_up(tmp_path):
    with machine(tmp_path, "sleep 60") as running, pytest.raises(UnavailableError, match="did not say"):
        running.wait_for(re.compile("never"), 0.2)


def test_it_ends_with_us_however_we_end(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from nightjar.firmware_scripts.twin import process\n"
        "process.require = lambda *_: None\n"
        "with process.Qemu(['/bin/sleep', '600'], Path(sys.argv[1])) as machine:\n"
        "    print(machine.pid, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": "."}) as ours:
        pid = int(ours.stdout.readline())
        assert is_alive(pid)
        os.kill(ours.pid, signal.SIGKILL)
        ours.wait()
    until(lambda: not is_alive(pid))
