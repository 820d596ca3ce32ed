"""What cannot be stored: nothing is corrupted, nothing is forgotten, and it goes on by itself when there is room."""

import sqlite3

import numpy as np
import pytest
import structlog

from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import CodecChoice, DropoutCause, Receipt, Verdict
from tests.edge_agent.fakes import LAYOUT, Phone
from tests.edge_agent.test_killed import STATES, lead_to

DENSE = CodecChoice(name="dense-f32")


class Full:
    """A journal on a disk without room: reads work, writes do not."""

    def __init__(self, phone: Phone) -> None:
        self._phone = phone
        self._commit = phone.database.commit
        self.tries = 0
        phone.database.commit = self._refuse

    def _refuse(self, _change) -> None:
        self.tries += 1
        raise UnavailableError("the agent's database could not be written (database or disk is full)")

    def make_room(self) -> None:
        self._phone.database.commit = self._commit


def test_a_trained_update_that_finds_no_room_is_kept_and_reported_when_there_is_some(tmp_path):
    phone = Phone(tmp_path)
    lead_to(phone, "training")
    disk = Full(phone)
    with structlog.testing.capture_logs() as lines:
        phone.work()
        for _ in range(30):
            phone.pass_time(1)
    assert phone.state == "training"
    assert phone.transport.of("report") == []
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["not_stored"], "said, and said once"
    assert 3 <= disk.tries <= 8, "with back-off"
    disk.make_room()
    phone.pass_time(60)
    assert phone.state == "reporting"
    report = phone.transport.of("report")[-1]
    phone.hear(Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED))
    sent = codec_for(DENSE).decode(frame.decode(report).payload, LAYOUT).dense()
    learned = np.linspace(0.25, 0.75, LAYOUT.size, dtype=np.float32)
    np.testing.assert_allclose(sent, learned, atol=1e-5)


@pytest.mark.parametrize("state", ["preparing", "training"])
def test_a_restart_that_finds_no_room_is_told_when_there_is_some(tmp_path, state):
    phone = Phone(tmp_path)
    lead_to(phone, state)
    phone.start()
    disk = Full(phone)
    phone.driver.begin()
    phone.pass_time(1)
    assert phone.transport.of("dropout") == []
    disk.make_room()
    phone.pass_time(5)
    assert [d.cause for d in phone.transport.of("dropout")] == [DropoutCause.RESTARTED]
    assert phone.state in {"ineligible", "settling"}
    assert phone.database.load().deaths == 1


@pytest.mark.parametrize("state", STATES)
def test_a_full_disk_in_state_ends_as_if_it_had_not_been(tmp_path, state):
    phone = Phone(tmp_path)
    lead_to(phone, state)
    disk = Full(phone)
    for _ in range(4):
        if phone.worker.jobs:
            phone.work()
        phone.pass_time(1)
    disk.make_room()
    phone.conditions.lost = set()
    for _ in range(300):
        if phone.database.tally().reports_sent:
            return
        if phone.state == "checked-in":
            phone.be_assigned(1, codec=DENSE)
        elif phone.worker.jobs:
            phone.work()
        elif phone.state == "reporting" and phone.transport.of("report"):
            attempt = frame.decode(phone.transport.of("report")[-1]).attempt
            phone.hear(Receipt(round=1, attempt=attempt, verdict=Verdict.ACCEPTED))
        phone.pass_time(5)
    pytest.fail(f"it never reported; it is {phone.state}")


def test_a_receipt_that_finds_no_room_is_asked_for_again(tmp_path):
    phone = Phone(tmp_path)
    lead_to(phone, "reporting")
    disk = Full(phone)
    phone.hear(Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED))
    assert phone.state == "reporting"
    disk.make_room()
    phone.pass_time(10)
    assert len(phone.transport.of("report")) == 2, "the same again, which will be a duplicate"
    phone.hear(Receipt(round=1, attempt=1, verdict=Verdict.DUPLICATE))
    assert phone.database.tally().reports_sent == 1


def test_a_database_that_somebody_else_holds_is_said_and_used_when_it_is_free(tmp_path):
    phone = Phone(tmp_path)
    lead_to(phone, "training")
    phone.database._connection.execute("PRAGMA busy_timeout = 10")  # ten seconds are for people
    other = sqlite3.connect(tmp_path / "agent.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with structlog.testing.capture_logs() as lines:
        phone.work()
    assert phone.state == "training"
    (said,) = [line["error"] for line in lines if line["event"] == "not_stored"]
    assert "locked" in said
    other.execute("ROLLBACK")
    other.close()
    phone.pass_time(5)
    # Reading the texts forgets old ones, which is a write; so the training failed, and that is told now.
    assert [d.cause for d in phone.transport.of("dropout")] == [DropoutCause.TRAINING_FAILED]
    assert phone.state == "resting"


def test_a_disk_that_is_full_changes_nothing_and_the_next_attempt_works(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    outcome = phone.worker.finish()
    disk = Full(phone)
    phone.driver.handle(outcome)
    assert phone.state == "training"
    assert phone.transport.of("report") == []
    disk.make_room()
    phone.pass_time(5)
    assert phone.state == "reporting"


def test_a_disk_that_stays_full_is_said_once_and_so_is_its_end(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    outcome = phone.worker.finish()
    disk = Full(phone)
    with structlog.testing.capture_logs() as lines:
        phone.driver.handle(outcome)
        for _ in range(200):
            phone.pass_time(61)
        disk.make_room()
        phone.pass_time(61)
    assert [line["event"] for line in lines if "stored" in line["event"]] == ["not_stored", "stored_again"]
    assert next(line for line in lines if line["event"] == "stored_again")["failed_tries"] >= 200
