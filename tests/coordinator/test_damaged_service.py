"""The real service with its broker starts on a damaged data folder, and refuses a damaged database with status 2."""

import os
import subprocess
import sys

import pytest

from nightjar.coordinator.mqtt.broker import SESSIONS
from tests.brokers import KINDS
from tests.coordinator.fake_device import PATIENCE_S
from tests.coordinator.test_service import ROOT, Service

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_starts_on_damaged_files_and_is_healthy(tmp_path, kind):
    with Service(tmp_path, kind):
        pass
    data_dir = tmp_path / "data"
    (data_dir / "broker" / SESSIONS).write_bytes(os.urandom(500))
    for name in ("drawing.key", "worker.log", "broker/broker.log", "lock"):
        (data_dir / name).unlink(missing_ok=True)
    os.mkfifo(data_dir / "control.sock")
    os.mkfifo(data_dir / "drawing.key")
    os.mkfifo(data_dir / "worker.log")
    (data_dir / "broker/broker.log").mkdir()
    (data_dir / "lock").symlink_to("lock")
    with Service(tmp_path, kind):
        pass
    put_away = {path.name for path in (data_dir / "put-away").iterdir()}
    wanted = {"control.sock", "drawing.key", "worker.log", "broker.log", "lock"}
    if kind == "mosquitto":
        wanted.add(SESSIONS)
    assert {name.rpartition(".")[0] for name in put_away if not name.endswith(".why")} == wanted


def test_the_service_refuses_a_database_that_is_gone_and_leaves_all_as_it_is(tmp_path):
    with Service(tmp_path, "embedded"):
        pass
    (tmp_path / "data/coordinator.sqlite").unlink()
    command = [sys.executable, "-m", "nightjar.coordinator", "serve", "--config", str(tmp_path / "coordinator.toml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "expected the database that knows the artifacts beside it, got none" in done.stderr
    assert "restore a backup" in done.stderr
    assert not (tmp_path / "data/coordinator.sqlite").exists()
