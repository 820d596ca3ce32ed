import os
import subprocess
import sys
import time

import pytest

from nightjar.benchmarks.measuring import cpu_time_s


def test_the_time_of_a_process_is_known_more_finely_than_in_ticks():
    before_s, before = cpu_time_s(os.getpid()), time.process_time()
    while time.process_time() < before + 0.003:
        pass
    after_s = cpu_time_s(os.getpid())
    assert 0.003 <= after_s - before_s <= time.process_time() - before + 0.001


def test_another_process_has_its_own():
    program = "print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"\n"  # it has done something
        assert cpu_time_s(child.pid) > 0
        child.communicate(b"\n")
    with pytest.raises(OSError, match="argument"):
        cpu_time_s(child.pid)
