"""The benchmark of secure sums as a command, small: what it prints. Its times are not tested."""

import json

import pytest
from click.testing import CliRunner

from nightjar.benchmarks.secure_sum import main, measure


def test_it_prints_a_run_for_each_share_of_dropouts():
    done = CliRunner().invoke(main, ["--cohort", "10", "--values", "50", "--json"])
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)["runs"]
    assert [run["dropouts"] for run in runs] == [0.0, 0.1, 0.3]
    for run in runs:
        assert run["exact"]
        assert run["mean_error"] < 0.05
        assert run["included"] >= 10 - round(10 * run["dropouts"])
        assert 0 < run["device_cpu_s_median"] <= run["device_cpu_s_max"]
        assert run["coordinator_cpu_s"] > 0


@pytest.mark.slow
def test_a_cohort_of_a_hundred_keeps_the_bars_for_bytes():
    run = measure(100, 10, 0.3, 7)
    assert run["exact"]
    assert max(run["up_bytes_max"], run["down_bytes_max"]) < 20_000
