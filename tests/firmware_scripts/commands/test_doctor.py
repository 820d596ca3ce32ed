import json

from nightjar.firmware_scripts.core.checks import Level, findings
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.core.test_checks import FakeHost


def test_it_runs_on_this_machine_and_every_fault_has_a_remedy():
    rows = json.loads(firmware("doctor", "--json").stdout)
    assert rows
    assert all(row["remedy"] for row in rows if row["level"] != "good")


def test_it_ends_with_a_status_of_its_own_where_a_command_would_fail(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = firmware("doctor")
    assert done.returncode == 10
    assert "lsblk is missing" in done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith("everything that is missing: ")]
    assert {"adb", "fakeroot", "mtools"} <= set(line.split())


def test_what_a_command_that_was_asked_for_lacks_is_a_fault():
    def faults(*commands):
        found = findings(FakeHost(), commands)
        return {finding.packages for finding in found if finding.level is Level.FAULT} - {""}

    assert faults() == {"util-linux"}
    assert faults("customise") == {"util-linux", "mtools", "fdisk"}
    assert faults("twin") == {"util-linux", "qemu-system-arm", "qemu-system-x86"}
