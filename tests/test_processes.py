"""What tests start is ended, whatever it does."""

import subprocess
import sys

import pytest

from tests.processes import end

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


def test_a_process_that_does_not_end_when_asked_is_killed_and_is_a_failure():
    with subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        with pytest.raises(subprocess.TimeoutExpired):
            end(process, 0.1)
        assert process.returncode == -9
