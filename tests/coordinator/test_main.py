import sys

import pytest

from nightjar.coordinator.__main__ import main


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["coordinator", *arguments])
    try:
        main()
        status = 0
    except SystemExit as error:
        status = error.code
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
