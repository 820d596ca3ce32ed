"""A round whose coordinator learns only the sum: real agents, broker and coordinator, each a process, over TLS."""

import os
import signal
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from nightjar.benchmarks.phones import PhoneSetting
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.models.manifest import Manifest
from nightjar.wire.parameters import weights_from_bytes
from nightjar.wire.secure_sum.grid import FIRST_SPREAD, REACH
from tests.coordinator.model_folder import INITIAL, LAYOUT
from tests.enrolment.world import ROOT, World
from tests.faults.phones import step_of

pytestmark = pytest.mark.broker

STAY, LEAVES = ("a", "b", "c", "d"), "e"


class SummedWorld(World):
    def __init__(self, folder, kind) -> None:
        super().__init__(folder, kind)
        changed = {
            "goal = 2": "goal = 5",
            "minimum = 2": 'minimum = 4\nprivacy = "secure-sum"\nplan = { evaluation_share = 0.0 }',
            "report_deadline_s = 600.0": "report_deadline_s = 60.0",
            'name = "dense-f32"': "",
        }
        text = self.path.read_text()
        for before, after in changed.items():
            assert before in text
            text = text.replace(before, after)
        self.path.write_text(text)
        self.config = load_config(self.path, {})

    def phones(self, *names) -> subprocess.Popen:
        setting = PhoneSetting(str(self.folder), names, "demo", poll_s=0.2)
        path = self.folder / f"{'-'.join(names)}.setting.json"
        path.write_bytes(msgspec.json.encode(setting))
        with (self.folder / "phones.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.faults.phones", str(path)]
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            return subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log, env=env)

    def round(self) -> dict:
        items = self.ask("GET", "/rounds?limit=10")["items"]
        return next((each for each in items if each["number"] == 1), {})


def test_a_version_is_committed_though_a_device_dies_between_its_shares_and_its_report(tmp_path, mosquitto_or_embedded):
    with SummedWorld(tmp_path, mosquitto_or_embedded) as world:
        for name in (*STAY, LEAVES):
            world.enrolled(name)
        (tmp_path / LEAVES / "training").touch()
        running = [world.phones(*STAY), world.phones(LEAVES)]
        try:
            world.wait_until(lambda: world.round().get("accepted") == len(STAY), "reported")
            running[1].send_signal(signal.SIGKILL)
            world.wait_until(lambda: world.round()["phase"] == "committed", "committed")
        finally:
            for process in running:
                process.kill()
                process.wait(60)
    artifacts, database = FileBlobs(tmp_path / "data" / "artifacts"), Database(database_url(world.config))
    with database.transaction() as tx:
        base, made = (Manifest.decode(artifacts.get(tx.version(number).manifest)) for number in (0, 1))
    database.close()
    change = weights_from_bytes(artifacts.get(made.weights.sha256), LAYOUT) - INITIAL
    assert base.bases != made.bases
    # Vectors are summed whole. Few words weigh little, so that the rounding is coarse; on the average it vanishes.
    (bias,) = (change[start:stop] for spec, start, stop in LAYOUT.spans() if len(spec.shape) == 1)
    assert np.mean(bias) == pytest.approx(np.mean([min(step_of(name), FIRST_SPREAD * REACH) for name in STAY]), rel=0.3)
