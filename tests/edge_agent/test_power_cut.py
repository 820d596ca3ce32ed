"""A power cut in the middle of every single change of a file in an agent's life: it begins again cleanly, at once."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_a_power_cut_at_every_change_of_a_file(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the library that ends the process: apt install gcc libc6-dev")
    library = tmp_path / "power_cut.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "power_cut.c"), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.edge_agent.power_cut_life"],
        cwd=HERE.parents[1],
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *complaints, last = done.stdout.splitlines()
    assert complaints == [], done.stderr[-3000:]
    assert int(re.fullmatch(r"(\d+) changes", last)[1]) > 100
