"""The ingest benchmark as a command, small: what it prints, and that nothing is lost. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import ingest
from coordinator.shell.broker import find_mosquitto

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
def test_it_prints_its_figures_as_json_and_progress_for_a_person_and_draws_memory(tmp_path):
    drawn = tmp_path / "memory.png"
    command = [sys.executable, "-m", "benchmarks.ingest", "--connections", "40", "--bursts", "1", "--json"]
    done = subprocess.run(
        [*command, "--plot", str(drawn)], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    asked_for = {"connections", "report_bytes", "reports_per_s", "bare_subscriber_per_s", "ratio_to_bare_subscriber"}
    asked_for |= {"reports_lost", "p50_ms", "p99_ms", "coordinator_rss_mb", "broker_rss_mb"}
    assert asked_for <= run.keys()
    assert (run["connections"], run["reports_lost"]) == (40, 0)
    assert 19_000 < run["report_bytes"] < 21_000
    assert run["p50_ms"] <= run["p99_ms"]
    assert {"s", "coordinator", "broker"} <= run["memory_curve"][0].keys()
    assert "40 connections, burst 1 of 1" in done.stderr
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_too_many_connections_for_this_machine_are_said_with_the_limit():
    with pytest.raises(ingest.click.ClickException, match=r"need 1000000200 file descriptors; this machine allows"):
        ingest.raise_descriptor_limit(10**9)
