"""A full disk and a locked database, on both sides: said, tried again, nothing corrupted, and over by itself."""

import contextlib
import sqlite3
import time

import pytest

from tests.faults.small_disk import LimitedFiles, MountedDisk, small_disk
from tests.faults.world import PATIENCE_S, Coordinator, Phones, check_ledger, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NAMES = ["phone-a", "phone-b", "phone-c"]


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as one:
        yield one


def until_reporting(coordinator: Coordinator, phones: Phones) -> None:
    coordinator.wait_until(lambda s: s["round"] and len(s["round"]["selected"]) == 3, "a cohort")
    wait_until(lambda: all(f"event=training device={name}" in phones.log() for name in NAMES), phones.log)


def test_the_coordinators_disk_is_full_for_a_while(tmp_path, mosquitto, disk):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, data=disk.folder / "data", rounds=2)
    phones = Phones(tmp_path / "phones", NAMES, mosquitto.port, coordinator.url)
    phones.hold("training")
    with coordinator, phones:
        until_reporting(coordinator, phones)
        disk.fill(coordinator.process.pid)
        phones.let_go("training")
        wait_until(lambda: "event=not_stored" in coordinator.log(), coordinator.log)
        wait_until(lambda: b"nothing can be stored" in (coordinator.get("/healthz") or b""), coordinator.log)
        time.sleep(2)
        assert "verdict=accepted" not in phones.log(), "nothing is promised that is not kept"
        assert coordinator.running
        said = coordinator.log()
        assert "free some space" in said
        assert said.count("event=not_stored") <= 6, "with back-off"
        disk.make_room(coordinator.process.pid)
        coordinator.wait_done()
        coordinator.wait_healthy()
    assert "event=stored_again" in coordinator.log()
    assert coordinator.starts == 1
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["abandoned"], ledger["reports"]) == (2, 0, 6)
    sound(coordinator.data / "coordinator.sqlite")


def test_stopped_while_its_disk_is_full_the_coordinator_ends_with_status_3_and_goes_on_when_there_is_room(
    tmp_path, mosquitto, disk
):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, data=disk.folder / "data", rounds=1)
    phones = Phones(tmp_path / "phones", NAMES, mosquitto.port, coordinator.url)
    phones.hold("training")
    with coordinator, phones:
        until_reporting(coordinator, phones)
        disk.fill(coordinator.process.pid)
        phones.let_go("training")
        wait_until(lambda: "event=not_stored" in coordinator.log(), coordinator.log)
        assert coordinator.stop() == 3
        wait_until(lambda: "\ncoordinator: " in coordinator.log(), coordinator.log)
        assert "free some space" in coordinator.log().rsplit("\ncoordinator: ", 1)[1]
        if isinstance(disk, MountedDisk):
            disk.fill(0)  # also what it gave back at its end
        coordinator.start()
        if isinstance(disk, MountedDisk):
            # The end was clean, so there is no log of the database left to go on with, and no room for a new one.
            assert coordinator.process.wait(PATIENCE_S) == 3, "which is for its supervisor to try again"
            disk.make_room(0)
            coordinator.start()
        coordinator.wait_done()
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["reports"]) == (1, 3)


def test_the_phones_disk_is_full_for_a_while(tmp_path, mosquitto):
    disk = LimitedFiles(tmp_path / "disk")
    disk.folder.mkdir()
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, rounds=2)
    phones = Phones(disk.folder / "phones", NAMES, mosquitto.port, coordinator.url, logs=tmp_path)
    phones.hold("training")
    with coordinator, phones:
        until_reporting(coordinator, phones)
        disk.fill(phones.process.pid)
        phones.let_go("training")
        wait_until(lambda: phones.log().count("event=not_stored") == 3, phones.log)
        time.sleep(3)
        assert phones.log().count("event=not_stored") == 3, "each says it once"
        assert "is the disk full" in phones.log()
        assert "event=report_sent" not in phones.log(), "a report that is not kept is not sent"
        disk.make_room(phones.process.pid)
        coordinator.wait_done()
    assert phones.log().count("event=stored_again") == 3
    assert (coordinator.starts, phones.starts) == (1, 1)
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["abandoned"]) == (2, 0)
    for name in NAMES:
        sound(phones.folder / name / "agent.db")


def test_both_databases_are_held_by_somebody_else_for_longer_than_anybody_waits(tmp_path, mosquitto):
    coordinator = Coordinator(tmp_path / "c", mosquitto.port, rounds=1)
    phones = Phones(tmp_path / "phones", NAMES, mosquitto.port, coordinator.url)
    phones.hold("training")
    with coordinator, phones:
        until_reporting(coordinator, phones)
        with held(coordinator.data / "coordinator.sqlite"), held(phones.folder / NAMES[0] / "agent.db"):
            phones.let_go("training")
            wait_until(lambda: "event=not_stored" in coordinator.log(), coordinator.log)
            wait_until(lambda: f"event=not_stored device={NAMES[0]}" in phones.log(), phones.log)
        coordinator.wait_done()
    for log in (coordinator.log(), phones.log()):
        assert "locked" in log
        assert "open" in log
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["abandoned"]) == (1, 0)


@contextlib.contextmanager
def held(path):
    """Somebody's shell has a transaction open."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def sound(path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
