"""A power cut in the middle of every single change of a file in an agent's life: it begins again cleanly, at once."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.power_cut import power_cut_library

HERE = Path(__file__).parent


@pytest.mark.long
def test_a_power_cut_at_every_change_of_a_file(tmp_path):
    library = power_cut_library(tmp_path)
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
