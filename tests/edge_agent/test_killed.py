"""The agent killed in each state of its machines: it ends up reporting as if nothing had happened."""

import numpy as np
import pytest

from nightjar.edge_agent.core.eligibility import Condition
from nightjar.edge_agent.core.lifecycle import State
from nightjar.edge_agent.inbox import LinkUp
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.messages import (
    CodecChoice,
    Dropout,
    DropoutCause,
    Receipt,
    Rejection,
    RejectionReason,
    TrainingPlan,
    Verdict,
)
from tests.edge_agent.fakes import LAYOUT, Phone, receipt, to_report

SHORTER = TrainingPlan(learning_rate=0.5, clip_norm=1.0, keep_share=0.5)
DENSE = CodecChoice(name="dense-f32")


def lead_to(phone: Phone, state: str) -> None:
    """From a first start into a state."""
    phone.driver.begin()
    steps = {
        "ineligible": lambda: None,
        "settling": lambda: phone.pass_time(1),
        "checked-in": lambda: phone.pass_time(120),
        "preparing": lambda: phone.be_assigned(1, codec=DENSE, plan=SHORTER, report_deadline_s=500.0),
        "training": phone.work,
        "reporting": phone.work,
    }
    for name, happens in steps.items():
        happens()
        assert phone.state == name
        if name == state:
            return
        if state == "resting" and name == "checked-in":
            phone.hear(Rejection(reason=RejectionReason.ROUND_IN_PROGRESS, retry_after_s=30))
            assert phone.state == "resting"
            return
        if state == "finishing" and name == "training":
            phone.conditions.lost = {Condition.CHARGING}
            phone.pass_time(1)
            assert phone.state == "finishing"
            return


def carry_on(phone: Phone) -> bytes:
    """As the coordinator and the world go on: until a report of some attempt is accepted; its bytes."""
    attempt = 1
    for _ in range(20):
        if phone.state == "checked-in":
            dropped = [d for d in phone.transport.of("dropout") if d.cause is DropoutCause.RESTARTED]
            attempt += len(dropped)
            phone.be_assigned(1, codec=DENSE, attempt=attempt)
        elif phone.state in {"preparing", "training"}:
            phone.work()
        elif phone.state == "reporting":
            phone.pass_time(6)
            report = phone.transport.of("report")[-1]
            phone.hear(Receipt(round=1, attempt=frame.decode(report).attempt, verdict=Verdict.ACCEPTED))
            return report
        else:
            phone.pass_time(60)
    raise AssertionError(f"it never reported; it is {phone.state}")


STATES = tuple(state.__struct_config__.tag for state in State.__args__)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("state", STATES)
def test_killed_in_state_it_reports_once_and_nothing_is_lost(tmp_path, state, times):
    phone = Phone(tmp_path)
    lead_to(phone, state)
    before = phone.transport.of("report")
    phone.conditions.lost = set()
    for _ in range(times):
        phone.kill()
    report = carry_on(phone)
    if before:
        assert report == before[0], "the same bytes again"
    tally = phone.database.tally()
    assert (tally.reports_sent, tally.bytes_sent) == (1, len(report))
    sent = codec_for(DENSE).decode(frame.decode(report).payload, LAYOUT).dense()
    learned = np.linspace(0.25, 0.75, LAYOUT.size, dtype=np.float32)
    np.testing.assert_allclose(sent, learned, atol=1e-5)
    assert phone.database.load().parcel is None


@pytest.mark.parametrize("state", ["pending", "sent", "settled"])
@pytest.mark.parametrize("verdict", [Verdict.ACCEPTED, Verdict.DUPLICATE, Verdict.LATE])
def test_killed_in_outbox_state_the_receipt_counts_once(tmp_path, state, verdict):
    phone = Phone(tmp_path)
    lead_to(phone, "training")
    phone.transport.connected = state != "pending"
    phone.work()
    assert len(phone.transport.of("report")) == (state != "pending")
    receipt = Receipt(round=1, attempt=1, verdict=verdict)
    if state == "settled":
        phone.hear(receipt)
    phone.kill()
    if state != "settled":
        phone.pass_time(1)
        assert len(phone.transport.of("report")) == 1, "everything is pending again after a start"
    phone.hear(receipt)
    phone.hear(receipt)
    assert phone.database.tally().reports_sent == (verdict is not Verdict.LATE)
    assert phone.database.load().parcel is None
    assert phone.transport.of("dropout") == []


def test_a_session_that_ends_the_process_again_and_again_is_not_begun_for_ever(phone):
    for number in (1, 2, 3):
        phone.check_in() if number == 1 else phone.pass_time(121)
        phone.pass_time(121)
        assert phone.state == "checked-in"
        phone.be_assigned(number)
        phone.work()
        assert phone.state == "training"
        phone.kill()
    assert phone.state == "resting"
    (dropout,) = phone.transport.of("dropout")
    assert (dropout.cause, dropout.detail) == (DropoutCause.TRAINING_FAILED, "the last 3 sessions ended the agent")
    phone.pass_time(5 * 3600)
    assert phone.state == "resting"
    phone.pass_time(3600)
    phone.pass_time(121)
    assert phone.state == "checked-in"


def test_a_session_that_ends_well_forgives_those_before(phone):
    phone.check_in()
    for number, fate in enumerate(("dies", "dies", "ends well", "dies", "dies"), 1):
        while phone.state != "checked-in":
            phone.pass_time(121)
        phone.be_assigned(number)
        phone.work()
        if fate == "dies":
            phone.kill()
            assert phone.state == "ineligible"
        else:
            phone.work()
            phone.hear(receipt(number=number))


def test_killed_in_ineligible_settling_or_checked_in_begins_anew(phone):
    phone.kill()
    assert phone.state == "ineligible"
    phone.pass_time(1)
    phone.kill()
    assert phone.state == "ineligible"
    phone.pass_time(1)
    phone.pass_time(120)
    assert phone.state == "checked-in"
    phone.kill()
    assert phone.state == "ineligible"
    assert phone.transport.of("dropout") == []


@pytest.mark.parametrize("working", ["preparing", "training"])
def test_killed_in_preparing_or_training_says_so_once(phone, working):
    phone.check_in()
    phone.be_assigned(4)
    if working == "training":
        phone.work()
    assert phone.state == working
    phone.kill()
    assert phone.state == "ineligible"
    expected = [Dropout(round=4, attempt=1, cause=DropoutCause.RESTARTED, detail="the agent was restarted")]
    assert phone.transport.of("dropout") == expected
    phone.kill()
    assert phone.transport.of("dropout") == []


def test_killed_in_training_while_offline_says_so_when_it_is_back(phone):
    phone.check_in()
    phone.be_assigned(4)
    phone.start()
    phone.transport.connected = False
    phone.driver.begin()
    phone.kill()
    assert phone.transport.of("dropout") == []
    phone.driver.handle(LinkUp())
    assert [d.cause for d in phone.transport.of("dropout")] == [DropoutCause.RESTARTED]


def test_killed_in_reporting_sends_the_same_bytes(phone):
    to_report(phone, codec=DENSE)
    (before,) = phone.transport.of("report")
    phone.kill()
    assert phone.state == "reporting"
    phone.pass_time(1)
    assert phone.transport.of("report") == [before]
    phone.hear(receipt(Verdict.DUPLICATE))
    assert phone.state == "resting"


def test_killed_between_storing_the_report_and_sending_it_loses_nothing(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    phone.transport.connected = False
    phone.work()
    phone.kill()
    phone.pass_time(1)
    assert len(phone.transport.of("report")) == 1


def test_killed_in_resting_begins_anew_and_forgets_the_report(phone):
    to_report(phone)
    phone.hear(receipt(retry_after_s=1000))
    phone.kill()
    assert phone.state == "ineligible"
    phone.pass_time(1)
    assert phone.transport.of("report") == []
