"""A standby takes over, with the same sessions, from a coordinator that is killed in the middle of a burst."""

import contextlib
import re
import sqlite3
import sys

import numpy as np
import pytest

from benchmarks.emulated_fleet import Fired, Fleet, Update, together
from tests.coordinator.model_folder import LAYOUT
from tests.faults.world import Coordinator, Phones, Process, check_ledger, wait_until
from wire.codec import codec_for
from wire.messages import CodecChoice

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SHARDS = 3


class Standby(Process):
    """The second coordinator on the first one's folder."""

    def __init__(self, first: Coordinator) -> None:
        config = first.folder / "coordinator.toml"
        command = [sys.executable, "-m", "coordinator", "serve", "--standby", "--config", str(config)]
        super().__init__(command, first.folder / "standby.log")


@pytest.fixture(autouse=True)
def _shards(monkeypatch):
    monkeypatch.setenv("NIGHTJAR_SHARDS", str(SHARDS))


def reports_of(coordinator: Coordinator, number: int) -> int:
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite")) as database:
        return database.execute("SELECT count(*) FROM reports WHERE round = ?", (number,)).fetchone()[0]


def test_killed_in_a_burst_no_report_is_lost_and_none_is_counted_twice(tmp_path, mosquitto):
    count = 700  # more than one batch of the driver
    first = Coordinator(
        tmp_path / "c", mosquitto.port, {"committed-a-report": 1}, rounds=1, goal=count, minimum=count,
        selection_deadline_s=120.0,
    )  # fmt: skip
    standby = Standby(first)
    codec = codec_for(CodecChoice(name="dense-f32"))
    with first:
        first.wait_healthy()
        with standby:
            wait_until(lambda: "event=standing_by" in standby.log(), standby.log)
            payload = codec.encode(np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, np.random.default_rng(1))
            update = Update(codec.wire_id, LAYOUT.fingerprint, (payload,))
            fleet = Fleet(mosquitto.port, [f"phone-{number:04d}" for number in range(count)], update, 0, SHARDS)
            try:
                together([fleet], "connect")
                assert together([fleet], "check_in") == [1]
                assert "event=standby_takes_over" not in standby.log()
                fired: Fired = together([fleet], "fire")[0]
            finally:
                fleet.close()
            first.wait_done()
            assert not first.running, "it died after it had committed reports, and before it had sent a receipt"
            assert first.died.read_text().split() == ["committed-a-report"]
            assert fired.verdicts.keys() <= {"accepted", "duplicate"}
            assert sum(fired.verdicts.values()) == count
            assert fired.verdicts["duplicate"] > 0, "what was committed without a receipt was sent again"
            assert reports_of(first, 1) == count
            opened = re.findall(r"event=broker_connected .*shard=(\d+)", standby.log())
            assert sorted(opened) == [str(number) for number in range(SHARDS)]
            first.process = None  # it was meant to die
    assert "Traceback" not in standby.log()


def test_agents_go_on_with_the_standby_and_a_third_takes_over_from_it(tmp_path, mosquitto):
    first = Coordinator(tmp_path / "c", mosquitto.port, rounds=4, goal=3, minimum=3)
    phones = Phones(tmp_path / "phones", [f"phone-{i}" for i in range(4)], mosquitto.port, first.url)
    standby = Standby(first)
    with first, phones:
        first.wait_until(lambda state: state["counters"]["rounds_committed"] >= 1, "a round")
        standby.start()
        try:
            wait_until(lambda: "event=standing_by" in standby.log(), standby.log)
            first.kill()
            first.wait_until(lambda state: state["counters"]["rounds_committed"] >= 2, "a round of the standby")
            standby.kill()
            first.start()
            first.wait_done()
        finally:
            standby.stop()
    assert phones.starts == 1
    ledger = check_ledger(first, phones)
    assert (ledger["committed"], ledger["reports"]) == (4, 12)
