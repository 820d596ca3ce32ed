import io
import os
import signal
import subprocess
import sys
import threading

import pytest

from nightjar.host import children
from nightjar.host.children import TRIES, LineChild, answer_lines
from tests.processes import is_alive

ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1], flush=True)"


@pytest.fixture
def make():
    made = []

    def child(code, **options):
        made.append(LineChild([sys.executable, "-c", code], **options))
        return made[-1]

    yield child
    for each in made:
        each.end()


def test_each_line_has_one_answer_and_the_process_stays(make):
    child = make(ECHO)
    assert child.pid is None, "started when it is wanted"
    assert child.ask(b"abc") == b"cba"
    pid = child.pid
    assert (child.ask(b""), child.ask(b"xy"), child.pid) == (b"", b"yx", pid)


def test_one_that_is_gone_is_started_again(make):
    child, died = make(ECHO), []
    child.ask(b"abc")
    os.kill(child.pid, signal.SIGKILL)
    assert child.ask(b"abc", died=lambda status, left: died.append((status, left))) == b"cba"
    assert died in ([], [(-signal.SIGKILL, TRIES - 1)])


def test_one_that_dies_each_time_gives_no_answer(make):
    child, died = make("import sys; sys.stdin.readline(); print('half', end=''); sys.exit(3)"), []
    assert child.ask(b"abc", died=lambda status, left: died.append((status, left))) is None
    assert died == [(3, 1), (3, 0)]
    assert child.pid is None


def test_one_that_hangs_is_killed(make):
    child, died = make("import time; time.sleep(600)"), []
    assert child.ask(b"abc", timeout_s=0.2, died=lambda status, left: died.append(status)) is None
    assert died == [-signal.SIGKILL] * TRIES


@pytest.mark.slow
def test_one_that_hangs_is_left_also_if_it_reads_nothing_or_its_own_child_holds_the_pipe(make):
    child = make("import time; time.sleep(600)")
    assert child.ask(bytes(1 << 20), timeout_s=0.2) is None
    nested = make("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])")
    assert nested.ask(b"abc", timeout_s=0.5) is None


@pytest.mark.slow
def test_beside_one_that_hangs_and_cannot_be_killed_no_other_is_started(make, tmp_path, monkeypatch):
    """Such as sudo's: each question would leave one more behind."""
    monkeypatch.setattr(children, "END_TIMEOUT_S", 0.1)
    started = tmp_path / "started"
    hang = f"open({str(started)!r}, 'a').write('x'); import time; time.sleep(600)"
    child = make(hang)
    with monkeypatch.context() as patch:
        patch.setattr(children, "_kill", lambda _child: None)
        for _ in range(3):
            assert child.ask(b"abc", timeout_s=1.0) is None
    assert started.read_text() == "x"
    children._kill(child._left)
    child._left.wait(60)


def test_a_long_line_has_a_long_answer(make):
    assert make(ECHO).ask(b"ab" * (1 << 20)) == b"ba" * (1 << 20)


def test_a_program_that_is_not_there_gives_no_answer():
    assert LineChild(["/no/such/program"]).ask(b"abc") is None


def test_what_it_says_on_standard_error_is_added_to_its_log(make, tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    child = make("import sys; input(); print('now', file=sys.stderr); print('ok')", log=log)
    assert child.ask(b"abc") == b"ok"
    child.end(patience_s=60)
    assert log.read_text() == "before\nnow\n"


def test_the_end_of_its_input_is_enough_for_one_that_listens(make):
    child = make(ECHO)
    child.ask(b"abc")
    assert child.end(patience_s=60) == 0
    assert child.end() is None


def test_it_can_be_killed_in_the_middle_of_an_answer_and_is_not_started_again(make):
    child = make("import sys, time; print('x', flush=True); time.sleep(600)")
    assert child.ask(b"first") == b"x"
    answers = []
    asking = threading.Thread(target=lambda: answers.append(child.ask(b"second")))
    asking.start()
    pid = child.pid
    child.kill()
    asking.join(60)
    assert answers == [None]
    assert child.pid is None
    assert not is_alive(pid)


def test_lines_are_answered_until_the_input_ends():
    answers = io.BytesIO()
    answer_lines(io.BytesIO(b"a\nbc\n"), answers, bytes.swapcase)
    assert answers.getvalue() == b"A\nBC\n"


def test_what_libraries_print_is_no_answer():
    code = (
        "from nightjar.host.children import own_output\n"
        "out = own_output(); print('chatter', flush=True); out.write(b'answer')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"answer", b"chatter\n")


def test_a_child_dies_with_its_parent():
    code = (
        "import os, subprocess, sys\n"
        "ours = 'import sys, time; from nightjar.host.children import die_with_parent; "
        "die_with_parent(int(sys.argv[1])); print(1, flush=True); time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', ours, str(os.getpid())], stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(600):
        if not is_alive(child):
            break
        threading.Event().wait(0.1)
    assert not is_alive(child)
