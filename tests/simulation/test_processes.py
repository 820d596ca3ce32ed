import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from nightjar.simulation.demo.processes import Service, outcome, quiet_child, stopping, wait_until
from nightjar.wire.errors import UnavailableError

PATIENCE_S = 120.0
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def service(tmp_path, code, name="s"):
    return Service(name, [sys.executable, "-c", code], tmp_path / "logs" / f"{name}.log")


def wait_for_log(one, text):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if text in one.tail():
            return
        time.sleep(0.02)
    pytest.fail(one.tail())


def test_its_output_goes_to_its_log_and_a_second_start_appends(tmp_path):
    one = service(tmp_path, "print('hello')")
    for _ in range(2):
        one.start()
        one._process.wait(PATIENCE_S)
    assert one.tail() == "hello\nhello"
    assert not one.running


def test_a_service_that_was_never_started_has_no_process(tmp_path):
    one = service(tmp_path, "")
    assert not one.running
    one.stop()
    one.kill()
    with pytest.raises(UnavailableError, match="never started"):
        _ = one.pid


def test_one_that_ends_before_it_is_ready_is_an_error_with_its_log(tmp_path):
    one = service(tmp_path, "print('no port left')")
    one.start()
    with pytest.raises(UnavailableError, match=r"s could not start(.|\n)*no port left"):
        wait_until(lambda: False, [one], PATIENCE_S)


def test_one_that_is_never_ready_is_an_error_with_its_log(tmp_path):
    one = service(tmp_path, STUBBORN)
    one.start()
    wait_for_log(one, "ready")
    with pytest.raises(UnavailableError, match=r"s did not answer within 0 s(.|\n)*ready"):
        wait_until(lambda: False, [one], 0.0)
    one.kill()


def test_one_that_does_not_end_when_asked_is_made_to(tmp_path):
    one = service(tmp_path, STUBBORN)
    one.start()
    wait_for_log(one, "ready")
    one.stop(timeout_s=0.2)
    assert not one.running


def test_everything_is_stopped_when_the_block_fails(tmp_path):
    groups = [[service(tmp_path, "import time; time.sleep(600)", f"s{i}")] for i in range(2)]

    def fail():
        with stopping(groups):
            for group in groups:
                group[0].start()
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert not any(one.running for group in groups for one in group)


@pytest.mark.slow
def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path):
    code = f"""
    import sys, time
    from pathlib import Path
    from nightjar.simulation.demo.processes import Service
    child = Service("c", [sys.executable, "-c", "import time; time.sleep(600)"], Path({str(tmp_path)!r}) / "c.log")
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(PATIENCE_S)
    parent.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.02)
    pytest.fail("the child lives on")


def test_a_child_that_is_killed_at_its_work_is_an_error_that_names_the_work(tmp_path):
    with quiet_child(tmp_path / "logs" / "child.log") as child, pytest.raises(UnavailableError, match="the warm start"):
        outcome(child.submit(os._exit, 9), "the warm start")
