import json
from pathlib import Path

import pytest

from tests.firmware_scripts.command_line import firmware

ROOT = Path(__file__).parents[3]
MACHINES = ROOT / "tests" / "firmware_scripts" / "machines"


def targets(*arguments):
    return firmware("targets", *arguments)


def test_a_described_machine_is_shown_as_json():
    done = targets("--json", "--recorded", MACHINES / "laptop-usb-reader")
    assert done.returncode == 0, done.stderr
    found = {row["path"]: row for row in json.loads(done.stdout)}
    assert found["/dev/sdb"]["allowed"] is True
    assert found["/dev/sdb"]["reasons"] == []
    assert "holds-root" in {reason["rule"] for reason in found["/dev/nvme0n1"]["reasons"]}


def test_this_machine_is_recorded_and_replays_the_same(tmp_path):
    recorded = targets("--json", "--record", tmp_path / "here")
    assert recorded.returncode == 0, recorded.stderr
    replayed = targets("--json", "--recorded", tmp_path / "here")
    assert json.loads(replayed.stdout) == json.loads(recorded.stdout)
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"lsblk.json", "mountinfo", "swaps"}


def test_the_disk_that_this_system_runs_from_is_never_allowed():
    for row in json.loads(targets("--json").stdout):
        if {"holds-root", "root-unknown", "mounted", "swap"} & {reason["rule"] for reason in row["reasons"]}:
            assert row["allowed"] is False


def test_hostile_names_do_not_reach_the_terminal():
    done = targets("--recorded", MACHINES / "hostile-model-name")
    assert done.returncode == 0
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert len(done.stdout.splitlines()) < 12
    assert max(map(len, done.stdout.splitlines())) < 300
    as_json = targets("--json", "--recorded", MACHINES / "hostile-model-name").stdout
    assert as_json.isascii()
    assert "\x1b" not in as_json


@pytest.mark.parametrize("missing", ["lsblk.json", "mountinfo", "swaps"])
def test_a_recording_that_lacks_a_file_is_told(tmp_path, missing):
    for file in {"lsblk.json", "mountinfo", "swaps"} - {missing}:
        (tmp_path / file).write_bytes((MACHINES / "laptop-usb-reader" / file).read_bytes())
    done = targets("--recorded", tmp_path)
    assert done.returncode == 2
    assert missing in done.stderr


@pytest.mark.parametrize("file", ["lsblk.json", "mountinfo", "swaps"])
def test_a_damaged_recording_is_refused_whole(tmp_path, file):
    for name in ("lsblk.json", "mountinfo", "swaps"):
        (tmp_path / name).write_bytes((MACHINES / "laptop-usb-reader" / name).read_bytes())
    (tmp_path / file).write_bytes(b"\xff\x00garbage\ngarbage")
    done = targets("--recorded", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_without_lsblk_no_disk_is_judged(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    done = targets()
    assert done.returncode == 3
    assert "lsblk" in done.stderr


def test_recording_and_replaying_at_once_makes_no_sense(tmp_path):
    assert targets("--record", tmp_path, "--recorded", tmp_path).returncode == 2
