import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.benchmarks.filled_database import Size, fill
from nightjar.coordinator.mqtt.broker import find_mosquitto
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import counted_rounds
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.database import Database

ROOT = Path(__file__).parents[2]
NOW_S = 1_800_000_000.0


@pytest.mark.slow
def test_the_database_holds_exactly_what_was_asked_for(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    with database.transaction() as tx:
        tx.add_version(VersionRecord(version=0, task="keyboard", manifest="0" * 64))
    fill(database, Size(devices=300, rounds=40, reports=1000), "keyboard", "1" * 64, NOW_S)
    with database.transaction() as tx:
        assert tx.devices_since(float("-inf")) == 300
        assert tx.accepted_reports() == 1000
        assert tx.rounds_in(Phase.COMMITTED) == tx.last_version_number() == 38
        assert tx.rounds_in(Phase.ABANDONED) == 2
        assert len(tx.samples(0.0, 1)) == 24 * 60
        assert all(summary.report_bytes == 12_000 * summary.accepted for summary in tx.recent_rounds(40))
        assert counted_rounds(tx.leases(1)[0])
    database.close()


@pytest.mark.verify
@pytest.mark.broker
@pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine")
def test_it_prints_what_was_measured_and_no_more():
    arguments = ["--devices", "300", "--rounds", "40", "--reports", "1000", "--requests", "3", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "nightjar.benchmarks.web", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {
        "pages",
        "health_p99_ms_with_slow_clients",
        "idle_rss_mb",
        "reports_per_s_meanwhile",
        "devices",
        "rounds",
        "reports",
    }
    assert (found["devices"], found["reports"]) == (300, 1000)
    assert {"path", "requests", "p50_ms", "p99_ms"} == set(found["pages"][0])
    assert {page["requests"] for page in found["pages"]} == {3}
