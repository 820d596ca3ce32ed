"""A message that the coordinator cannot handle: it gets over it, and nobody else is harmed."""

import contextlib
import sqlite3
import time

import numpy as np
import pytest

from nightjar.wire.messages import Receipt, Verdict
from tests.coordinator.fake_device import devices, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.faults.world import Coordinator, Supervisor

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_it_is_counted_and_acknowledged_and_the_round_commits_with_what_came_beside_it(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, {}, rounds=1, goal=2, minimum=2, over_selection=1.5)
    with Supervisor(coordinator), devices(mosquitto.port, "a", "b", "evil") as (a, b, evil):
        coordinator.wait_healthy()
        for device in (a, b, evil):
            device.check_in()
        asked = {device: device.wait_for_assignment() for device in (a, b, evil)}
        deadly = report_frame(asked[evil], np.full(LAYOUT.size, 666.25, np.float32), LAYOUT)
        evil.publish("report", deadly)
        a.publish("report", report_frame(asked[a], np.full(LAYOUT.size, 0.5, np.float32), LAYOUT))  # beside it
        evil.publish("report", deadly)  # as a device does that gets no receipt
        assert a.wait_for(Receipt).verdict is Verdict.ACCEPTED
        receipt = b.report_until_receipt(asked[b], report_frame(asked[b], np.ones(LAYOUT.size, np.float32), LAYOUT))
        assert receipt.verdict is Verdict.ACCEPTED
        state = coordinator.wait_done()
        time.sleep(0.5)
        assert coordinator.running
        assert coordinator.starts == 1, "nothing came again that ended it"
    assert state["counters"]["reports_accepted"] == 2
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite")) as database:
        counted = dict(database.execute("SELECT name, value FROM counters"))
    assert counted["events_failed"] == 2, "the broker hands each over once"
    assert "event=event_failed" in coordinator.log()
