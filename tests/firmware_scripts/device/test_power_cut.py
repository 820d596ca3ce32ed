"""A power cut in the middle of every change of a file in two updates: the device begins again, on a whole release."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.power_cut import power_cut_library

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_power_cut_at_every_change_of_a_file_of_an_update(tmp_path):
    library = power_cut_library(tmp_path)
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
