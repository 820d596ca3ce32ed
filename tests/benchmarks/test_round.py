"""The round benchmark as a command, small: what it prints. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
@pytest.mark.verify
def test_it_prints_a_run_for_each_model_that_ships(tmp_path):
    command = [
        sys.executable,
        "-m",
        "nightjar.benchmarks.round",
        "--phones",
        "4",
        "--rounds",
        "2",
        "--processes",
        "2",
        "--json",
    ]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin:/usr/sbin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    tiny, gboard = json.loads(done.stdout)["runs"]
    assert (tiny["model"], tiny["parameters"]) == ("tiny", 185_728)
    assert (gboard["model"], gboard["parameters"]) == ("gboard", 1_412_250)
    for run in (tiny, gboard):
        assert run["transport"].startswith("tls with certificates, ")
        assert (run["devices"], run["reports"], run["rounds"]) == (4, 4, 2)
        assert 0 < run["wall_s_median"] <= run["wall_s_p90"]
        assert run["coordinator_cpu_s_median"] > 0
        assert run["phones_cpu_s_median"] > 0
    assert 1_500 < tiny["report_bytes_median"] < 2_000, "as real reports at 1 % density"
    assert 9_500 < gboard["report_bytes_median"] < 11_500
