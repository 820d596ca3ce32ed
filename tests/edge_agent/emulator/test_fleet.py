"""Many emulated phones in one process: each is a whole agent, and they share a trainer."""

import contextlib
import functools
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.edge_agent.config import AgentConfig, EmulatorSettings, KeyboardSettings
from nightjar.edge_agent.emulator.fleet import run_fleet
from nightjar.edge_agent.inbox import Job
from nightjar.edge_agent.shell.worker import JobThread, ThreadWorker
from nightjar.wire import frame
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import Dropout, DropoutCause, Receipt, Status, TrainingPlan, Verdict
from tests.edge_agent.fake_coordinator import PATIENCE_S, FakeCoordinator, artifact_server, mosquitto, mosquitto_path
from tests.edge_agent.test_agent_process import make_assignment

ROOT = Path(__file__).parents[2]


# --- one worker for all ---


def test_a_phones_job_is_its_own_though_others_have_the_same_number():
    done, all_done = [], threading.Event()

    def post(phone, outcome):
        done.append((phone, outcome.number, outcome.outcome))
        if len(done) == 3:
            all_done.set()

    may_begin = threading.Event()
    shared = JobThread()
    phones = [ThreadWorker(functools.partial(post, number), shared) for number in range(3)]
    phones[0].start(Job(1, lambda _stop: may_begin.wait(PATIENCE_S) and "first"))
    phones[1].start(Job(1, lambda stop: f"stopped: {stop()}"))
    phones[2].start(Job(1, lambda _stop: "never begins"))
    phones[2].stop(1)
    phones[2].stop(7)
    phones[2].start(Job(2, lambda stop: f"stopped: {stop()}"))
    may_begin.set()
    assert all_done.wait(PATIENCE_S)
    shared.close(PATIENCE_S)
    assert done == [(0, 1, "first"), (1, 1, "stopped: False"), (2, 2, "stopped: False")]


@pytest.mark.parametrize("changes", [{}, {"emulator": EmulatorSettings(), "keyboard": KeyboardSettings(enabled=True)}])
def test_a_real_device_or_a_phone_with_a_keyboard_runs_alone(tmp_path, changes):
    with pytest.raises(ConfigError, match="runs alone"):
        run_fleet([AgentConfig(device="d", data_dir=tmp_path, **changes)], tmp_path)


# --- a life among a real broker ---


PHONE = """device = "{name}"
population = "test"
data_dir = "{name}"
coordinator_url = "{url}"
[broker]
port = {port}
[conditions]
hysteresis_s = 0.2
poll_s = 0.1
[limits]
cohort = 1
density = 1.0
[emulator]
seed = {number}
messages = "messages.txt"
[emulator.day]
jitter_minutes = 0
interruptions_per_hour = 0
[[emulator.day.segments]]
from_hour = 0
charging = true
in_use = false
wifi = true
battery = 1.0
"""


class Fleet:
    def __init__(self, folder, port, url, names):
        (folder / "messages.txt").write_text("hello there my friend\n" * 40)
        self.configs = []
        for number, name in enumerate(names):
            path = folder / f"{name}.toml"
            path.write_text(PHONE.format(name=name, url=url, port=port, number=number))
            self.configs.append(str(path))
        self.log = folder / "fleet.log"
        self.artifacts = folder / "shared"

    def __enter__(self):
        command = [
            sys.executable,
            "-m",
            "nightjar.edge_agent",
            "emulate",
            "--artifacts",
            str(self.artifacts),
            *self.configs,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)


@pytest.mark.broker
@pytest.mark.tflite
def test_every_phone_of_a_process_trains_reports_and_takes_its_leave(tmp_path, exported):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    names = [f"phone-{number}" for number in range(5)]
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mosquitto(tmp_path, port))
        url = stack.enter_context(artifact_server(exported.artifacts))
        coordinator = FakeCoordinator(port)
        stack.callback(coordinator.close)
        fleet = stack.enter_context(Fleet(tmp_path, port, url, names))
        for _ in names:
            assert coordinator.next("check-in").emulated
        for name in names:
            coordinator.say(name, make_assignment(exported, 1))
        reports = [frame.decode(coordinator.next("report")) for _ in names]
        assert {report.round for report in reports} == {1}
        # The same messages, another seed: alike, and not the same.
        assert len({report.payload for report in reports}) == len(names)
        assert len({report.num_examples for report in reports}) == 1
        for name in names:
            coordinator.say(name, Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED))
        for _ in names:
            assert coordinator.next("check-in").weights == exported.model.manifest.weights.sha256

        # One in the middle of a session, the others at rest.
        long = TrainingPlan(learning_rate=0.1, clip_norm=1.0, local_epochs=1000)
        coordinator.say(names[2], make_assignment(exported, 2, plan=long))
        coordinator.next("status", state="training")
        fleet.process.send_signal(signal.SIGTERM)
        # In any order: each of them has a connection of its own.
        dropped: Dropout | None = None
        left = 0
        while dropped is None or left < len(names):
            match coordinator.next("status", "dropout"):
                case Dropout() as dropped:
                    pass
                case Status(online=online):
                    left += not online
        assert dropped.cause is DropoutCause.RESTARTED
        assert fleet.process.wait(PATIENCE_S) == 0
    wanted = len(exported.artifacts) - len(exported.model.manifest.for_keyboards)  # there is no keyboard
    assert len(list((tmp_path / "shared/artifacts").glob("*"))) == wanted + 1, "on disk once"
    assert "hello" not in fleet.log.read_text()
