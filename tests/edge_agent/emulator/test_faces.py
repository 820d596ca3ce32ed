"""Each face of an emulated phone, looked at by the real probes, tells the same day as the script."""

import contextlib
import os
import shutil
import subprocess
from functools import partial

import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.emulator.day import DEFAULT_DAY, PhoneState, state_at
from nightjar.edge_agent.emulator.phone import PlayedPhone, ScriptedConditions
from tests.edge_agent.emulator.adb_server import AdbServer, serving
from tests.edge_agent.emulator.faces import shell
from tests.edge_agent.emulator.staged import with_adb, with_files, with_termux

# Busy enough to be different in every hour, and shown by every face.
HOURS = (3.0, 7.5, 8.5, 10.0, 12.5, 15.0, 20.5)
CONDITIONS = (Condition.CHARGING, Condition.IDLE, Condition.UNMETERED, Condition.BATTERY_HIGH)


class Clock:
    now_s = 1.7e9

    def __call__(self):
        return self.now_s


def played(clock):
    return PlayedPhone(partial(state_at, DEFAULT_DAY, 1), 1.0, 0.0, 1.7e9, clock)


@contextlib.contextmanager
def face(name, phone, folder):
    """(what is looked at, the probe with a question in the background)"""
    match name:
        case "linux":
            yield with_files(phone, folder, 0.3), None
        case "termux":
            yield with_termux(phone, folder, 0.3)
        case "adb":
            staged, adb, server = with_adb(phone, 0.3)
            with serving(server):
                yield staged, adb


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linux", "termux", "adb"])
def test_the_probes_find_what_the_script_says(tmp_path, name):
    if name == "adb" and shutil.which("adb") is None:
        pytest.skip("adb is not installed: apt install adb")
    clock = Clock()
    phone = played(clock)
    script = ScriptedConditions(phone, 0.3)
    for hour in HOURS:
        clock.now_s = 1.7e9 + hour * 3600
        with face(name, phone, tmp_path / str(hour)) as (staged, probe):
            staged()
            if probe is not None:
                probe.question.wait(30)
            found, told = staged(), script()
        for condition in CONDITIONS:
            assert found[condition].value is told[condition].value, (hour, condition, found[condition])
            assert found[condition].source.startswith("emulated: "), "labelled"
        assert found[Condition.COOL].value is Answer.YES


def test_a_phone_that_is_picked_up_is_seen_in_the_same_files(tmp_path):
    clock = Clock()
    states = [PhoneState(True, False, True, 0.9), PhoneState(False, True, False, 0.2)]
    phone = PlayedPhone(lambda _s: states[0], 1.0, 0.0, 1.7e9, clock)
    staged = with_files(phone, tmp_path, 0.3)
    assert all(reading.value is Answer.YES for reading in staged().values())
    states.pop(0)
    found = staged()
    assert all(found[condition].value is Answer.NO for condition in CONDITIONS)


# --- the real client ---


def adb(server, *arguments):
    return subprocess.run(
        ["adb", "-P", str(server.port), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": "/nonexistent"},
    )


@pytest.fixture
def server():
    if shutil.which("adb") is None:
        pytest.skip("adb is not installed: apt install adb")
    with serving(AdbServer("serial-7", lambda command: shell(PhoneState(True, False, True, 0.5), command))) as running:
        yield running


def test_the_real_client_lists_the_phone_and_runs_commands_on_it(server):
    assert "serial-7\tdevice" in adb(server, "devices").stdout
    for which in ((), ("-s", "serial-7")):
        assert "  level: 50\n" in adb(server, *which, "shell", "dumpsys", "battery").stdout
    assert "Can't find service" in adb(server, "shell", "dumpsys", "nothing").stdout


def test_the_real_client_is_told_of_a_phone_that_is_not_there_and_of_what_is_not_offered(server):
    done = adb(server, "-s", "other", "shell", "dumpsys", "battery")
    assert done.returncode != 0
    assert "not found" in done.stderr
    assert adb(server, "reboot").returncode != 0
