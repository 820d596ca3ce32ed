"""A message that ends the process: the coordinator gets over it, and nobody else is harmed."""

import contextlib
import json
import sqlite3
import time

import numpy as np
import pytest

from coordinator.shell.quarantine import MOST_DEATHS
from tests.coordinator.fake_device import devices, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.faults.world import Coordinator, Supervisor
from wire.messages import Receipt, Verdict

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_after_three_deaths_it_is_kept_as_a_file_its_device_is_told_and_the_round_commits(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, {}, rounds=1, goal=3, minimum=2)
    with Supervisor(coordinator), devices(mosquitto.port, "a", "b", "evil") as (a, b, evil):
        coordinator.wait_healthy()
        for device in (a, b, evil):
            device.check_in()
        asked = {device: device.wait_for_assignment() for device in (a, b, evil)}
        deadly = report_frame(asked[evil], np.full(LAYOUT.size, 666.25, np.float32), LAYOUT)
        innocent = report_frame(asked[a], np.full(LAYOUT.size, 0.5, np.float32), LAYOUT)
        evil.publish("report", deadly)
        a.publish("report", innocent)  # beside it in the broker's queue
        assert a.wait_for(Receipt).verdict is Verdict.ACCEPTED
        told = evil.wait_for(Receipt)
        assert (told.verdict, told.code) == (Verdict.INVALID, "quarantined")
        receipt = b.report_until_receipt(asked[b], report_frame(asked[b], np.ones(LAYOUT.size, np.float32), LAYOUT))
        assert receipt.verdict is Verdict.ACCEPTED
        state = coordinator.wait_done()
        deaths = coordinator.starts - 1
        evil.publish("report", deadly)  # as a device does that missed its receipt
        told = evil.wait_for(Receipt)
        assert told.verdict is Verdict.INVALID
        time.sleep(0.5)
        assert coordinator.running
        assert coordinator.starts == 1 + deaths
    print(f"the coordinator died {deaths} times")
    assert deaths == MOST_DEATHS
    assert state["counters"]["reports_accepted"] == 2
    assert state["counters"]["reports_invalid"] == {"quarantined": 1}
    (kept,) = (coordinator.data / "quarantine").glob("*.message")
    topic, _, payload = kept.read_bytes().partition(b"\n")
    assert topic == b"nightjar/1/demo/up/0/evil/report"
    assert payload == deadly
    assert f"file={kept}" in coordinator.log()
    assert json.loads((coordinator.data / "quarantine" / "deaths.json").read_bytes()) == {}
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite")) as database:
        counted = dict(database.execute("SELECT name, value FROM counters"))
    assert counted["messages_quarantined"] == 2
