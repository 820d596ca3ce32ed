import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.image.tools import run
from nightjar.wire.errors import UnavailableError

ROOT = Path(__file__).parents[3]


def test_what_a_program_prints_comes_back():
    assert run(["echo", "hello"]) == "hello\n"


def test_one_that_fails_says_why():
    with pytest.raises(UnavailableError, match="status 3:\nno room"):
        run(["sh", "-c", "echo no room >&2; exit 3"])


def test_one_that_is_not_there_is_said():
    with pytest.raises(UnavailableError, match="could not be run"):
        run(["no-such-program"])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_interrupted_is_given_the_time_to_clean_up(tmp_path, number):
    """mmdebstrap undoes its mounts then; killed, it leaves them. A background job of a shell ignores SIGINT."""
    script = (
        "import signal, sys, firmware_scripts.__main__ as program\n"
        "from nightjar.firmware_scripts.image.tools import run\n"
        f"if {number} == signal.SIGTERM: signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "@program.cli.command()\n"
        "def wait():\n"
        "    run(['sh', '-c', 'trap \"sleep 0.5; touch $0; exit 1\" TERM; sleep 1; touch $0.up; "
        f"while :; do sleep 0.05; done', {str(tmp_path / 'cleaned')!r}])\n"
        "program.main()\n"
    )
    cleaned = tmp_path / "cleaned"
    command = [sys.executable, "-c", script, "wait"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as ours:
        while not cleaned.with_name("cleaned.up").exists():
            assert ours.poll() is None
        ours.send_signal(number)
        said = ours.communicate(timeout=60)[1]
    assert cleaned.exists(), said.decode()
    assert ours.returncode == ExitStatus.INTERRUPTED
