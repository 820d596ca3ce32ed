"""Files in the agent's folder that it may not write or read, as a command that was run as root leaves them."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.edge_agent.shell.folder import LOCK
from nightjar.host import locks
from nightjar.host.locks import is_held
from tests.edge_agent.any_damage import AS_BEFORE, SPENT
from tests.edge_agent.other_owner import KINDS, NAMES, OF_ANOTHER

ROOT = Path(__file__).parents[2]
AS_ROOT = os.geteuid() == 0
OURS = ("no rights", "read only")
WITHOUT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
"""Root without these is a user like any other. Only root can make another's files."""


@pytest.mark.parametrize("kind", KINDS if AS_ROOT else OURS)
def test_the_device_is_who_it_was_and_says_what_it_could_not_read(tmp_path, kind):
    command = [sys.executable, "-m", "tests.edge_agent.other_owner", str(tmp_path), kind]
    done = subprocess.run(
        [*(WITHOUT if AS_ROOT else ()), *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [line["file"] for line in lines] == list(NAMES), done.stderr[-3000:]
    for line in lines:
        assert line["device"] == AS_BEFORE[0]
        assert line["spent"] == [entry.task for entry in SPENT]
        assert line["again"] == [], "the second start finds nothing new"
        if kind in OURS:
            assert line["said"] == [], "nothing was lost"
        elif kind == "foreign":
            assert line["said"], line["file"]


@pytest.mark.parametrize("readable", [True, False])
def test_a_lock_that_somebody_holds_is_seen(tmp_path, monkeypatch, readable):
    path = tmp_path / "lock"
    monkeypatch.setattr(os, "access", lambda *_: readable)
    with path.open("w") as file:
        assert not is_held(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_held(path)
    assert not is_held(path)


@pytest.mark.parametrize("readable", [True, False])
def test_a_lock_with_the_same_number_on_another_disk_is_not_ours(tmp_path, monkeypatch, readable):
    """Proven before: an agent on a small disk that had become read-only ended for ever, as another seemed to run."""
    path = tmp_path / "lock"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: readable)
    monkeypatch.setattr(locks, "_LOCKS", tmp_path / "locks")
    locks._LOCKS.write_text(f"1: FLOCK  ADVISORY  WRITE 7 7f:ff:{path.stat().st_ino} 0 EOF\n")
    assert not is_held(path)


TAKING = """
import contextlib, pathlib, sys
from nightjar.edge_agent.assembly import take_folder
from nightjar.wire.errors import ConfigError
with contextlib.ExitStack() as stack:
    try:
        take_folder(stack, pathlib.Path(sys.argv[1]))
    except ConfigError as error:
        print(error)
"""


@pytest.mark.parametrize("mode", [0o600, *([0o000] if AS_ROOT else ())])
def test_an_agent_that_runs_in_the_folder_is_named_the_same_way_whoever_runs_it(tmp_path, mode):
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    with (data_dir / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (data_dir / LOCK).chmod(mode)
        if mode == 0:
            os.chown(data_dir / LOCK, OF_ANOTHER, OF_ANOTHER)
        command = [sys.executable, "-c", TAKING, str(data_dir)]
        done = subprocess.run(
            [*(WITHOUT if AS_ROOT else ()), *command], cwd=ROOT, capture_output=True, text=True, check=False
        )
    said = f"data_dir: another agent is running in {data_dir}; stop it, or give this one a folder of its own\n"
    assert done.stdout == said, done.stderr
