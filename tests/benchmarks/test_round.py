"""The round benchmark as a command, small: what it prints. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
@pytest.mark.slow
def test_it_prints_its_figures_as_json(tmp_path):
    command = [sys.executable, "-m", "benchmarks.round", "--phones", "4", "--rounds", "2", "--processes", "2", "--json"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin:/usr/sbin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rounds"]
    assert (row["phones"], row["reports"]) == (4, 4)
    assert 0 < row["selected_to_committed_s"] < row["announce_to_committed_s"]
    assert row["coordinator_cpu_s"] > 0
    assert row["phones_cpu_s"] > 0
