import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from nightjar.coordinator.__main__ import main

ROOT = Path(__file__).parents[2]


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["coordinator", *arguments])
    try:
        main()
        status = 0
    except SystemExit as error:
        status = error.code
    finally:
        structlog.reset_defaults()  # 'serve' logs to this test's standard error
    output = capsys.readouterr()
    return status, output.out, output.err


def test_faults_end_with_one_message_and_status_2(monkeypatch, capsys, tmp_path):
    path = tmp_path / "coordinator.toml"
    path.write_text("port = 'x'\n[task]\ngoal = 0\n")
    status, _, err = run(monkeypatch, capsys, "serve", "--config", str(path))
    assert status == 2
    assert [fault in err for fault in ("port:", "task.goal:", "task.model:")] == [True] * 3


@pytest.mark.parametrize("arguments", [["serve", "--config"], ["broker"], ["broker", "--port", "0"], ["nothing"]])
def test_a_wrong_command_line_is_explained(monkeypatch, capsys, arguments):
    status, _, err = run(monkeypatch, capsys, *arguments)
    assert status == 2
    assert "Error" in err or "Usage" in err


def test_a_broker_on_a_network_needs_to_be_meant(monkeypatch, capsys):
    status, _, err = run(monkeypatch, capsys, "broker", "--port", "1883", "--host", "0.0.0.0")
    assert status == 2
    assert "--allow-network" in err


def test_help_lists_the_commands(monkeypatch, capsys):
    status, out, _ = run(monkeypatch, capsys, "--help")
    assert status == 0
    assert all(name in out for name in ("serve", "broker", "init", "doctor"))


@pytest.mark.parametrize("command", [["device", "list"], ["prune"], ["doctor"], ["token", "list"]])
def test_a_user_who_may_not_read_the_data_is_told_so_in_one_line(tmp_path, command):
    """Proven before: a traceback for each command that reads the database, as of one who forgot sudo."""
    (tmp_path / "model").mkdir()
    (tmp_path / "coordinator.toml").write_text('transport = "plain"\n[task]\nmodel = "model"\n')
    (tmp_path / "nightjar-coordinator").mkdir(mode=0o000)
    as_a_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_a_user, sys.executable, "-m", "nightjar.coordinator", *command],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "may not be used by this user; run this as the coordinator's own user, or as root" in done.stderr
