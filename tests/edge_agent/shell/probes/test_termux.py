import json
import os
import stat

import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes import command
from nightjar.edge_agent.shell.probes.termux import Termux
from tests.edge_agent.shell.probes.fake_device import settled


def status(**changes):
    usual = {"health": "GOOD", "percentage": 80, "plugged": "PLUGGED_AC", "status": "CHARGING", "temperature": 28.5}
    return json.dumps(usual | {"current": -12} | changes)


@pytest.mark.parametrize(
    ("changes", "condition", "answer"),
    [
        ({}, Condition.CHARGING, Answer.YES),
        ({"status": "FULL"}, Condition.CHARGING, Answer.YES),
        ({"status": "NOT_CHARGING"}, Condition.CHARGING, Answer.YES),
        ({"status": "DISCHARGING"}, Condition.CHARGING, Answer.NO),
        ({"status": "DISCHARGING", "plugged": "UNPLUGGED"}, Condition.CHARGING, Answer.NO),
        ({"status": "FULL", "plugged": "UNPLUGGED"}, Condition.CHARGING, Answer.NO),
        ({}, Condition.BATTERY_HIGH, Answer.YES),
        ({"percentage": 12}, Condition.BATTERY_HIGH, Answer.NO),
        ({"percentage": 0}, Condition.BATTERY_HIGH, Answer.UNKNOWN),
        ({}, Condition.COOL, Answer.YES),
        ({"temperature": 46.0}, Condition.COOL, Answer.NO),
        ({"temperature": None}, Condition.COOL, Answer.UNKNOWN),
    ],
)
def test_battery(programs, changes, condition, answer):
    programs.answers["termux-battery-status"] = status(**changes)
    assert settled(Termux(0.3, 45.0, programs))[condition].value is answer


@pytest.mark.parametrize("said", ["", "{}", "Termux:API is not yet available", status(percentage=500)])
def test_nonsense_is_unknown(programs, said):
    programs.answers["termux-battery-status"] = said
    assert {r.value for r in settled(Termux(0.3, 45.0, programs)).values()} == {Answer.UNKNOWN}


def test_a_program_that_hangs_is_unknown_and_nobody_waits(tmp_path, monkeypatch):
    stub = tmp_path / "termux-battery-status"
    stub.write_text("#!/bin/sh\nsleep 60 & wait\n")
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("nightjar.edge_agent.shell.probes.termux.TIMEOUT_S", 0.3)
    readings = settled(Termux(0.3, 45.0, command.run))
    assert readings[Condition.CHARGING].value is Answer.UNKNOWN
    assert readings[Condition.CHARGING].reason == "termux-battery-status did not answer within 0.3 s"
