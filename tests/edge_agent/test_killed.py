"""The agent killed in each state of its machines: it ends up reporting as if nothing had happened."""

import numpy as np
import pytest

from edge_agent.core.eligibility import Condition
from edge_agent.core.lifecycle import State
from tests.edge_agent.fakes import BOUND_TO, LAYOUT, Phone
from wire import frame
from wire.codec import codec_for
from wire.messages import (
    CodecChoice,
    DropoutCause,
    Receipt,
    Rejection,
    RejectionReason,
    TrainingPlan,
    Verdict,
)

SHORTER = TrainingPlan(learning_rate=0.5, clip_norm=1.0, keep_share=0.5)
FEEDBACK = CodecChoice(name="topk-8", density=0.1, error_feedback=True)


def lead_to(phone: Phone, state: str) -> None:
    """From a first start into a state."""
    phone.driver.begin()
    steps = {
        "ineligible": lambda: None,
        "settling": lambda: phone.pass_time(1),
        "checked-in": lambda: phone.pass_time(120),
        "preparing": lambda: phone.be_assigned(1, codec=FEEDBACK, plan=SHORTER, report_deadline_s=500.0),
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
            phone.be_assigned(1, codec=FEEDBACK, attempt=attempt)
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
    sent = codec_for(FEEDBACK).decode(frame.decode(report).payload, LAYOUT).dense()
    learned = np.linspace(0.25, 0.75, LAYOUT.size, dtype=np.float32)
    np.testing.assert_allclose(sent + phone.database.residual(BOUND_TO), learned, atol=1e-5)
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
