import json

from tests.firmware_scripts.command_line import firmware


def test_it_runs_on_this_machine_and_every_fault_has_a_remedy():
    rows = json.loads(firmware("doctor", "--json").stdout)
    assert rows
    assert all(row["remedy"] for row in rows if row["level"] != "good")


def test_it_ends_with_a_status_of_its_own_where_a_command_would_fail(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = firmware("doctor")
    assert done.returncode == 10
    assert "lsblk is missing" in done.stdout
