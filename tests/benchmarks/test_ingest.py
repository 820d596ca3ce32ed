"""The ingest benchmark as a command, small: what it prints, and that nothing is lost. Its figures are not tested."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.benchmarks import ingest
from nightjar.coordinator.mqtt.broker import find_mosquitto

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
def test_it_prints_a_run_alone_and_one_during_averaging_and_progress_for_a_person():
    command = [sys.executable, "-m", "nightjar.benchmarks.ingest", "--connections", "40", "--within", "1", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    alone, beside = json.loads(done.stdout)["runs"]
    assert (alone["during_averaging"], beside["during_averaging"]) == (False, True)
    for run in (alone, beside):
        assert (run["connections"], run["reports_lost"]) == (40, 0)
        assert run["transport"] == "tls with certificates, mosquitto"
        assert 19_000 < run["report_bytes"] < 21_000
        assert 0 < run["receipts_p50_ms"] <= run["receipts_p99_ms"] <= 1000 * run["all_receipted_s"]
        assert run["all_receipted_s"] > 0.9, "the reports were sent within a second, not at once"
        assert run["reports_per_s"] == pytest.approx(40 / run["all_receipted_s"])
    assert "40 connections, burst 1 of 1, beside" in done.stderr


def test_too_many_connections_for_this_machine_are_said_with_the_limit():
    with pytest.raises(ingest.click.ClickException, match=r"need 1000000200 file descriptors; this machine allows"):
        ingest.raise_descriptor_limit(10**9)
