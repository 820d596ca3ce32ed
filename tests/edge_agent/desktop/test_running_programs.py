"""Whether a program of a list runs, of this user only."""

import contextlib
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from nightjar.edge_agent.desktop.running_programs import any_runs

ROOT = Path(__file__).parents[3]
WAITING = "import sys; print(flush=True); sys.stdin.read()"
NOT_DUMPABLE = f"import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); {WAITING}"  # PR_SET_DUMPABLE
LOOKING = """
import sys
from pathlib import Path
from nightjar.edge_agent.desktop.running_programs import any_runs
try:
    Path("/proc", sys.argv[1], "exe").readlink()
except PermissionError:
    print([any_runs({name}) for name in sys.argv[2:]])
"""
ORDINARY = ["setpriv", "--bounding-set=-sys_ptrace"] if os.geteuid() == 0 else []
"""Root without this is a user like any other."""


@contextlib.contextmanager
def running(*command):
    """A process that waits; its id."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def program(tmp_path):
    """Python under a name that no other process has, nor that of a test which runs beside this one."""
    path = tmp_path / f"A{uuid.uuid4().hex}-Manager"
    path.symlink_to(sys.executable)
    return path


def test_a_program_is_found_while_it_runs_by_what_it_was_called_as(program):
    assert not any_runs({program.name.lower()})
    with running(program, "-I", "-c", WAITING):
        assert any_runs({program.name.lower()})
    assert not any_runs({program.name.lower()})


def test_a_program_that_does_not_show_its_file_to_its_own_user_is_found(program):
    with running(*ORDINARY, program, "-I", "-c", NOT_DUMPABLE) as number:
        looking = [*ORDINARY, sys.executable, "-c", LOOKING, str(number), program.name.lower(), uuid.uuid4().hex]
        done = subprocess.run(looking, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[True, False]\n"


@pytest.mark.parametrize("options", [[], ["-u"], ["-X", "dev"]], ids=" ".join)
@pytest.mark.parametrize("end", ["", ".py"])
def test_a_script_is_found(program, options, end):
    script = program.with_name(f"{program.name}-Script{end}")
    script.write_text(WAITING)
    assert not any_runs({f"{program.name}-script".lower()})
    with running(sys.executable, *options, str(script)):
        assert any_runs({f"{program.name}-script".lower()})


def test_where_nobody_can_tell_a_program_may_run(tmp_path):
    assert any_runs({"keepassxc"}, tmp_path / "none")
    (tmp_path / "2").mkdir()
    assert any_runs({"keepassxc"}, tmp_path)  # the processes of others are hidden, and with them what is not dumpable


@pytest.fixture
def proc(tmp_path):
    """A machine on which nothing runs but its first process."""
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "exe").symlink_to("/usr/lib/systemd/systemd")
    (tmp_path / "1" / "comm").write_bytes(b"systemd\n")
    (tmp_path / "2").mkdir()
    return tmp_path


FOUND = {
    "file": ("/usr/bin/keepassxc", None, None),
    "deleted file": ("/usr/bin/keepassxc (deleted)", b"", b"other\n"),
    "called as": ("/usr/bin/python3.11", b"/opt/KeePassXC\0-x\0", None),
    "called as, without an end": ("/usr/bin/python3.11", b"keepassxc", b"python3\n"),
    "script": ("/usr/bin/python3.11", b"python3\0-u\0/opt/KeePassXC.py\0", b"python3\n"),
    "script after a value": ("/usr/bin/python3.11", b"python3\0-X\0dev\0/opt/keepassxc\0", b"python3\n"),
    "another system's program": ("/usr/bin/wine", b"C:\\Programs\\KeePassXC.exe\0", b"wine\n"),
    "calls itself": ("/usr/bin/python3.11", b"\0\0", b"keepassxc\n"),
    "calls itself with a long name": ("/usr/bin/python3.11", None, b"a-very-long-nam\n"),
}


@pytest.mark.parametrize(("file", "line", "called"), FOUND.values(), ids=FOUND)
def test_each_of_its_names_is_enough(proc, file, line, called):
    assert not any_runs({"keepassxc", "a-very-long-name"}, proc)
    (proc / "2" / "exe").symlink_to(file)
    if line is not None:
        (proc / "2" / "cmdline").write_bytes(line)
    if called is not None:
        (proc / "2" / "comm").write_bytes(called)
    assert any_runs({"keepassxc", "a-very-long-name"}, proc)
    if os.geteuid() == 0:
        os.chown(proc / "2", 65534, 65534)
        assert not any_runs({"keepassxc", "a-very-long-name"}, proc), "another user's"


OTHERS = {
    "third argument": (b"less\0a\0b\0keepassxc\0", b"less\n"),
    "option": (b"firefox\0--keepassxc\0", b"firefox\n"),
    "part of a name": (b"keepassxc-proxy\0", b"keepassxc-proxy\n"),
    "no text": (b"\xff\xfe\0\xff", b"\xff\n"),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize(("line", "called"), OTHERS.values(), ids=OTHERS)
def test_other_programs_are_passed_over(proc, line, called):
    (proc / "2" / "exe").symlink_to("/usr/bin/other")
    (proc / "2" / "cmdline").write_bytes(line)
    (proc / "2" / "comm").write_bytes(called)
    assert not any_runs({"keepassxc"}, proc)


def test_a_program_that_has_ended_does_not_run_though_nobody_asked_for_its_status(proc):
    (proc / "2" / "comm").write_bytes(b"keepassxc\n")  # of a zombie only this is left
    assert not any_runs({"keepassxc"}, proc)
