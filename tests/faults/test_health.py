"""``/healthz`` says what is wrong, soon, and is never held up by it."""

import contextlib
import json
import sqlite3
import time

import pytest

from tests.faults.world import Coordinator, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SOON_S = 5.0
"""Half of what a connection waits for a locked database, and much for one that waits for nothing."""


def reasons(coordinator):
    began = time.monotonic()
    answer = coordinator.get("/healthz")
    assert time.monotonic() - began < SOON_S, "it waited for what is wrong"
    return json.loads(answer)["reasons"]


def test_while_the_database_is_locked_and_while_the_broker_is_away(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port)
    with coordinator:
        coordinator.wait_healthy()
        path = coordinator.data / "coordinator.sqlite"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE rounds SET phase = phase")
            # Something that is to be stored: time passes, and a round of an empty pool ends.
            wait_until(lambda: any("locked" in why for why in reasons(coordinator)), coordinator.log)
            other.execute("ROLLBACK")
        wait_until(lambda: reasons(coordinator) == [], coordinator.log)
        mosquitto.kill()
        wait_until(lambda: any("the broker is not connected" in why for why in reasons(coordinator)), coordinator.log)
        mosquitto.start()
        wait_until(lambda: reasons(coordinator) == [], coordinator.log)
    assert coordinator.starts == 1
