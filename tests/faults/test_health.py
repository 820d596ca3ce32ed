"""``/healthz`` says what is wrong, soon, and is never held up by it."""

import contextlib
import json
import sqlite3
import statistics
import time

import pytest

from tests.faults.world import Coordinator, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SOON_S = 5.0
"""Half of what a connection waits for a locked database, and much for one that waits for nothing."""


def reasons(coordinator):
    answer = coordinator.get("/healthz")
    assert answer is not None, coordinator.log()
    return json.loads(answer)["reasons"]


def wait_until_it_says(coordinator, what):
    """Until it says what is wrong; and it says so soon, if not each time: this machine may have stood still."""
    wait_until(lambda: any(what in why for why in reasons(coordinator)), coordinator.log)
    took_s = []
    for _ in range(5):
        began = time.monotonic()
        reasons(coordinator)
        took_s.append(time.monotonic() - began)
    assert statistics.median(took_s) < SOON_S, "it waited for what is wrong"


@contextlib.contextmanager
def locked(path):
    """Another program is in the middle of a change."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE rounds SET phase = phase")
        yield
        other.execute("ROLLBACK")


def test_a_database_that_is_locked_while_the_coordinator_starts_is_waited_for(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port)
    with coordinator:
        wait_until(lambda: coordinator.get("/healthz"), coordinator.log)  # it listens; the first round is to be stored
        with locked(coordinator.data / "coordinator.sqlite"):
            wait_until_it_says(coordinator, "locked")
        coordinator.wait_healthy()
    assert coordinator.starts == 1
    assert "event=stored_again" in coordinator.log()


def test_while_the_database_is_locked_and_while_the_broker_is_away(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port)
    with coordinator:
        coordinator.wait_healthy()
        with locked(coordinator.data / "coordinator.sqlite"):
            # Something that is to be stored: time passes, and a round of an empty pool ends.
            wait_until_it_says(coordinator, "locked")
        wait_until(lambda: reasons(coordinator) == [], coordinator.log)
        mosquitto.kill()
        wait_until_it_says(coordinator, "the broker is not connected")
        mosquitto.start()
        wait_until(lambda: reasons(coordinator) == [], coordinator.log)
    assert coordinator.starts == 1
