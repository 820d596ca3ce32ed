"""What a refused device learns over HTTPS, and how it returns, with a real coordinator."""

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from nightjar.edge_agent.enrolment import standing as watching
from nightjar.edge_agent.enrolment.enrolling import enrol, refusal
from nightjar.edge_agent.enrolment.standing import MOVED, StandingWatch
from tests.enrolment.world import ROOT, World

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), "embedded") as found:
        yield found


def test_a_refused_device_learns_why_and_loads_a_new_certificate_while_it_runs(world, monkeypatch):
    monkeypatch.setattr(watching, "LOOK_S", 0.02)
    monkeypatch.setattr(watching, "ASK_S", (0.02,))
    device = world.enrolled("pi")
    assert refusal(device.data_dir) == ""
    told, loaded = [""], threading.Event()
    with contextlib.closing(StandingWatch(device.data_dir, loaded.set, told.append)) as watch:
        world.ask("POST", "/devices/pi/forget", {})
        watch.connected(False)
        revoked = "this certificate was revoked; enrol this device again with a new claim"
        world.wait_until(lambda: told[-1] == revoked, "told")
        answer = device.request("GET", "/api/v1/enrolment/self")
        assert (answer.status, answer.json()["code"]) == (403, "revoked")
        enrol(device.data_dir, world.claim("again", device="pi"))
        assert loaded.wait(30)
        world.wait_until(lambda: told[-1] == "", "accepted again")
        other = world.claim("other-name", device="pi-two")
        world.ask("POST", "/devices/pi/forget", {})
        enrol(device.data_dir, other)
        world.wait_until(lambda: told[-1] == MOVED, "asked to restart")


@pytest.mark.tflite
def test_an_emulated_phone_learns_why_it_is_refused_and_returns_without_a_restart(world):
    phone, log = world.enrolled("emulated"), world.folder / "fleet.log"
    config = world.folder / "emulated.toml"
    config.write_text(f'data_dir = "{phone.data_dir}"\n[emulator]\n')
    command = [
        sys.executable,
        "-m",
        "nightjar.edge_agent",
        "emulate",
        "--artifacts",
        str(world.folder / "shared"),
        str(config),
    ]
    with log.open("ab") as errors:
        fleet = subprocess.Popen(command, cwd=ROOT, stderr=errors, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        world.wait_until(lambda: log.read_text().count("broker_connected") == 1, "connected")
        world.ask("POST", "/devices/emulated/forget", {})
        world.wait_until(lambda: "this certificate was revoked" in log.read_text(), "told")
        enrol(phone.data_dir, world.claim("emulated-again", device="emulated"))
        world.wait_until(lambda: log.read_text().count("broker_connected") == 2, "connected again")
    finally:
        fleet.terminate()
        fleet.wait(60)
