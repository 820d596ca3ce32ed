"""The person deletes everything, whatever the agent is doing at that moment."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from nightjar.edge_agent.inbox import WipeAsked
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import DropoutCause, Receipt, Verdict
from tests.edge_agent.fakes import Phone


@pytest.fixture
def phone(tmp_path):
    phone = Phone(tmp_path)
    phone.driver.begin()
    return phone


def wipe(phone) -> Future[None]:
    done: Future[None] = Future()
    phone.driver.handle(WipeAsked(phone.database.wipe, done))
    return done


def bring_to(phone, state):
    if state == "ineligible":
        return
    phone.pass_time(1)
    if state == "settling":
        return
    phone.pass_time(120)
    if state == "checked-in":
        return
    phone.be_assigned(1)
    if state == "preparing":
        return
    phone.work()
    if state == "training":
        return
    phone.work()


@pytest.mark.parametrize("state", ["ineligible", "settling", "checked-in", "preparing", "training", "reporting"])
def test_everything_is_gone_and_the_agent_begins_anew(phone, state):
    bring_to(phone, state)
    assert phone.state == state
    assert wipe(phone).result(0) is None
    assert (phone.database.count(), phone.database.load().parcel, phone.state) == (0, None, "ineligible")
    if state in ("preparing", "training"):
        (dropout,) = phone.transport.of("dropout")
        assert dropout.cause is DropoutCause.RESTARTED
        phone.work()  # what was under way ends, and nothing comes of it
        assert phone.database.load().parcel is None
    phone.pass_time(300)
    assert phone.state == "ineligible"  # there is nothing to learn from
    assert phone.database.load().deaths == 0
    phone.database.add("the cat sat")
    phone.pass_time(1)
    phone.pass_time(120)
    assert phone.state == "checked-in"


def test_receipt_for_a_deleted_report_changes_nothing(phone):
    bring_to(phone, "reporting")
    wipe(phone)
    phone.hear(Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED, retry_after_s=0.0))
    assert phone.state == "ineligible"
    assert phone.database.tally().reports_sent == 0


def test_wipe_that_fails_says_so_to_who_asked_and_the_agent_goes_on(phone):
    def fail() -> None:
        raise UnavailableError("the disk is full")

    done: Future[None] = Future()
    phone.driver.handle(WipeAsked(fail, done))
    with pytest.raises(UnavailableError, match="disk is full"):
        done.result(0)
    phone.pass_time(1)
    assert phone.database.count() == 2
