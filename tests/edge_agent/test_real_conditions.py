"""A whole agent that is no emulated phone: its device is a tree of files, and the files change while it trains."""

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.edge_agent.assembly import caps
from nightjar.edge_agent.config import load
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import DATABASE, own_folder
from nightjar.wire.messages import DropoutCause, TrainingPlan
from tests.edge_agent.fake_coordinator import PATIENCE_S, FakeCoordinator, artifact_server, mosquitto, mosquitto_path
from tests.edge_agent.losses import whole_device
from tests.edge_agent.test_agent_process import make_assignment

ROOT = Path(__file__).parents[2]
CONFIG = """device = "phone"
population = "test"
data_dir = "data"
coordinator_url = "{url}"
[broker]
port = {port}
[conditions]
root = "root"
hysteresis_s = 0.2
poll_s = 0.05
ask_logind = false
minimum_free_disk_bytes = 0
minimum_free_memory_bytes = 0
[limits]
cohort = 1
density = 1.0
"""
LONG = TrainingPlan(learning_rate=0.1, clip_norm=1.0, local_epochs=1000)


@contextlib.contextmanager
def process(command, config, **pipes):
    arguments = [sys.executable, "-m", "nightjar.edge_agent", *command, "--config", str(config)]
    with subprocess.Popen(arguments, cwd=ROOT, text=True, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.broker
@pytest.mark.tflite
def test_a_condition_that_is_lost_while_it_trains_stops_it_and_the_watching_command_says_the_same(tmp_path, exported):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    tree, (port,) = whole_device(tmp_path / "root"), free_ports(1)
    config = tmp_path / "agent.toml"
    with contextlib.ExitStack() as stack:
        stack.enter_context(mosquitto(tmp_path, port))
        url = stack.enter_context(artifact_server(exported.artifacts))
        coordinator = FakeCoordinator(port)
        stack.callback(coordinator.close)
        config.write_text(CONFIG.format(url=url, port=port))
        settings = load(config, {})
        with own_folder(settings.data_dir):
            database = Database(settings.data_dir / DATABASE, caps(settings), SystemClock())
            database.add_once("person", [" ".join(exported.words[n : n + 9]) for n in range(200)])
            database.close()
        agent = stack.enter_context(process(["run"], config, stderr=subprocess.DEVNULL))
        watch = stack.enter_context(process(["conditions", "--watch", "--json"], config, stdout=subprocess.PIPE))
        looks, seen = [], threading.Condition()

        def read():
            for line in watch.stdout:
                with seen:
                    looks.append(json.loads(line))
                    seen.notify_all()

        reader = threading.Thread(target=read)
        reader.start()

        def watched(reason):
            with seen:
                return seen.wait_for(lambda: any(look["reason"] == reason for look in looks), PATIENCE_S)

        for number, (lose, regain, cause, reason) in enumerate(
            [
                (
                    lambda: tree.supply("BAT0", status="Discharging"),
                    lambda: tree.supply("BAT0", status="Charging"),
                    DropoutCause.UNPLUGGED,
                    "not charging",
                ),
                (
                    lambda: tree.zone(0, 90_000),
                    lambda: tree.zone(0, 50_000),
                    DropoutCause.TOO_HOT,
                    "too hot: above 80 C",
                ),
            ],
            1,
        ):
            assert not coordinator.next("check-in").emulated
            coordinator.say("phone", make_assignment(exported, number, plan=LONG))
            coordinator.next("status", state="training")
            lose()
            dropout = coordinator.dropped_out(cause, reason)
            assert (dropout.round, dropout.detail) == (number, reason)
            assert watched(reason), looks
            regain()
        with seen:
            assert seen.wait_for(lambda: looks[-1]["standing"] in {"settling", "fit"}, PATIENCE_S), looks[-1]
        agent.terminate()
        assert agent.wait(PATIENCE_S) == 0
        watch.terminate()
        reader.join(PATIENCE_S)
