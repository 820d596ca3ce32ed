"""Many at once: 5,000 reports into a coordinator that is killed in their middle, and 10,000 retained statuses."""

import contextlib
import sqlite3
import time

import numpy as np
import psutil
import pytest

from nightjar.benchmarks.emulated_fleet import Fleet, Update, together
from nightjar.benchmarks.ingest import raise_descriptor_limit
from nightjar.wire.codec import codec_for
from nightjar.wire.messages import CodecChoice, Status
from tests.coordinator.model_folder import write_model
from tests.faults.world import Coordinator, Mosquitto, Supervisor, publish_retained, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

BURST = 5000
WORDS = 1620
"""As many make a dense report of 20 kB."""
RETAINED = 10_000
MORE_MEMORY_MB = 150.0
"""For ten thousand devices, beside what an empty coordinator takes."""


def test_a_burst_of_5000_reports_and_a_kill_in_its_middle_lose_nothing(tmp_path):
    raise_descriptor_limit(BURST)
    with Mosquitto(tmp_path / "broker") as broker:
        folder = tmp_path / "c"
        folder.mkdir()
        layout = write_model(folder / "model", tuple(f"w{number}" for number in range(WORDS))).layout
        task = {"goal": BURST, "minimum": BURST, "rounds": 1}
        task |= {"selection_deadline_s": 600.0, "report_deadline_s": 600.0}
        coordinator = Coordinator(folder, broker.port, {"committed-500-reports": 1}, **task)
        codec = codec_for(CodecChoice(name="dense-f32"))
        payload = codec.encode(np.ones(layout.size, np.float32), layout, np.random.default_rng(1))
        update = Update(codec.wire_id, layout.fingerprint, (payload,))
        assert 19_500 < len(update.frame(0, 1, 1, 0)) < 20_500
        names = [f"phone-{number:05d}" for number in range(BURST)]
        half = BURST // 2
        fleets = [Fleet(broker.port, names[at : at + half], update, at) for at in (0, half)]
        try:
            with Supervisor(coordinator):
                together(fleets, "connect")
                coordinator.wait_healthy()
                number = together(fleets, "check_in")[0]
                fired = together(fleets, "fire")
                coordinator.wait_done()
        finally:
            for fleet in fleets:
                fleet.close()
    verdicts = {name: sum(one.verdicts.get(name, 0) for one in fired) for one in fired for name in one.verdicts}
    print(f"verdicts: {verdicts}; sent again: {sum(one.resent for one in fired)}")
    assert coordinator.died.read_text().split() == ["committed-500-reports"], "it was killed in the middle"
    assert coordinator.starts == 2
    assert set(verdicts) <= {"accepted", "duplicate"}
    assert sum(verdicts.values()) == BURST
    assert stored(coordinator, number) == BURST


def stored(coordinator: Coordinator, number: int) -> int:
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite", timeout=60)) as database:
        return database.execute("SELECT count(*) FROM reports WHERE round = ?", (number,)).fetchone()[0]


def test_ten_thousand_retained_statuses_at_a_cold_start(tmp_path, mosquitto):
    empty = Coordinator(tmp_path / "empty", mosquitto.port)
    with empty:
        empty.wait_healthy()
        time.sleep(1)
        alone_mb = psutil.Process(empty.process.pid).memory_info().rss / 1e6

    kinds = [
        Status(online=True, state="ineligible", reason="not charging"),
        Status(online=True, state="resting", reason="report of round 1 accepted"),
        Status(online=False, reason="connection lost"),
        Status(online=True, state="checked-in", reason="waiting to be selected"),
    ]
    publish_retained(mosquitto.port, RETAINED, kinds)
    coordinator = Coordinator(tmp_path / "c", mosquitto.port)
    begun = time.monotonic()
    with coordinator:
        coordinator.wait_healthy()
        ready_s = time.monotonic() - begun
        wait_until(lambda: devices_known(coordinator) == RETAINED, coordinator.log)
        known_s = time.monotonic() - begun
        memory_mb = psutil.Process(coordinator.process.pid).memory_info().rss / 1e6
        # Devices are counted once a second at most, so the figures may be a moment older than the rows.
        many = RETAINED // len(kinds)
        states = ("ineligible", "resting", "offline", "checked-in")
        counted = [f'nightjar_devices{{state="{state}"}} {many}.0' for state in states]
        wait_until(
            lambda: all(line in (coordinator.get("/metrics") or b"").decode() for line in counted),
            coordinator.log,
        )
        shown = coordinator.wait_until(lambda state: state["round"], "a round")["round"]
    print(
        f"healthy after {ready_s:.1f} s, all known after {known_s:.1f} s; {memory_mb:.0f} MB, alone {alone_mb:.0f} MB"
    )
    assert memory_mb < alone_mb + MORE_MEMORY_MB
    assert shown["elsewhere"] == {"not charging": many, "told to come back later": many, "offline": many}


def devices_known(coordinator: Coordinator) -> int:
    with contextlib.closing(sqlite3.connect(coordinator.data / "coordinator.sqlite", timeout=60)) as database:
        return database.execute("SELECT count(*) FROM devices").fetchone()[0]
