"""The benchmark of connections as a command, small: what it prints, and that each check-in is answered."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto

ROOT = Path(__file__).parents[2]


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
def test_it_prints_what_idle_connections_cost_and_that_each_check_in_was_answered():
    options = ["--connections", "20", "--rate", "20", "--seconds", "1", "--json"]
    command = [sys.executable, "-m", "nightjar.benchmarks.connections", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["connections"], run["check_ins"], run["unanswered"]) == (20, 20, 0)
    assert run["transport"] == "tls with certificates, mosquitto"
    assert 0 < run["answers_p50_ms"] <= run["answers_p99_ms"]
    assert min(run["connects_per_s"], run["broker_kib_per_connection"], run["coordinator_cpu_us_per_check_in"]) > 0
