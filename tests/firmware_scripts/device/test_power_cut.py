"""A power cut in the middle of every change of a file in two updates: the device begins again, on a whole release."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_power_cut_at_every_change_of_a_file_of_an_update(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library that ends the process: apt install gcc libc6-dev")
    library = tmp_path / "power_cut.so"
    source = ROOT / "tests/edge_agent/power_cut.c"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.firmware_scripts.device.power_cut_life"],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *complaints, last = done.stdout.splitlines()
    assert complaints == [], done.stderr[-3000:]
    assert int(re.fullmatch(r"(\d+) changes", last)[1]) > 60
