import os
import subprocess
import sys
import threading

import pytest

from nightjar.host.locks import holder_of, take_lock


def test_only_one_holds_it_and_says_who_it_is(tmp_path):
    path = tmp_path / "lock"
    assert holder_of(path) is None
    with take_lock(path, says_who=True):
        assert holder_of(path) == os.getpid()
        with pytest.raises(BlockingIOError):
            take_lock(path)
    assert holder_of(path) is None
    (tmp_path / "lock").unlink()
    with take_lock(path):
        assert holder_of(path) == 0


def test_who_waits_has_it_when_the_other_is_done_and_not_before(tmp_path):
    entered = threading.Event()

    def wait() -> None:
        with take_lock(tmp_path / "lock", waiting=True):
            entered.set()

    with take_lock(tmp_path / "lock"):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not entered.wait(0.1)
    assert entered.wait(60)
    waiting.join(60)


def test_a_process_that_is_killed_gives_it_back_and_a_child_of_it_does_not_keep_it(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import subprocess, sys; from pathlib import Path; from nightjar.host.locks import take_lock\n"
        "lock = take_lock(Path(sys.argv[1]), says_who=True)\n"
        "child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        assert holder_of(path) == process.pid
        process.kill()
        process.wait()
        os.kill(child, 9)
    assert holder_of(path) is None


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        take_lock(tmp_path / "none" / "lock")
    assert holder_of(tmp_path / "none" / "lock") is None
