"""A disk that is full from any write of a start on: said in words, nothing lost, and over when there is room."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.power_cut import power_cut_library

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_start_on_a_disk_that_is_full_from_any_write_on(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.edge_agent.full_disk_start"],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(power_cut_library(tmp_path)), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    number, _, wrong = done.stdout.partition("\n")
    assert done.returncode == 0, done.stderr[-4000:]
    assert wrong.strip() == "", f"{wrong}\n{done.stderr[-4000:]}"
    assert int(number) > 50
