"""The report in the outbox: sent until a receipt settles it."""

import sqlite3

import pytest
import structlog

from nightjar.edge_agent.inbox import LinkDown, LinkUp
from nightjar.wire import frame
from nightjar.wire.messages import CodecChoice, Missing, Query, Verdict
from tests.edge_agent.fakes import receipt, to_report


def test_a_report_without_a_receipt_is_sent_again_with_the_same_bytes(phone):
    to_report(phone)
    for _ in range(40):
        phone.pass_time(1)
    reports = phone.transport.of("report")
    assert len(reports) >= 3
    assert len(set(reports)) == 1


def test_a_report_of_an_offline_phone_waits_for_the_connection(phone):
    phone.check_in()
    phone.be_assigned()
    phone.work()
    phone.transport.connected = False
    phone.driver.handle(LinkDown("gone"))
    phone.work()
    phone.pass_time(100)
    assert phone.transport.of("report") == []
    phone.transport.connected = True
    phone.driver.handle(LinkUp())
    phone.pass_time(1)
    assert len(phone.transport.of("report")) == 1
    assert phone.transport.of("status")[-1].state == "reporting"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_after_any_receipt_the_report_is_gone_and_the_next_round_is_joined(phone, verdict):
    to_report(phone)
    phone.hear(receipt(verdict))
    assert phone.database.load().parcel is None
    assert phone.database.tally().reports_sent == verdict.counted
    phone.pass_time(1)
    phone.be_assigned(2)
    phone.work()
    phone.work()
    assert [frame.decode(sent).round for sent in phone.transport.of("report")] == [1, 2]


def test_the_report_of_an_agent_of_before_is_delivered_after_an_update_and_the_device_goes_on(phone):
    """That agent kept, beside the report, what error feedback would continue with."""
    to_report(phone)
    (before,) = phone.transport.of("report")
    with sqlite3.connect(phone.folder / "agent.db") as agent_of_before:
        agent_of_before.execute("UPDATE outbox SET layout = 'layout', residual = ?, carried = ?", (bytes(5000), b"c"))
        agent_of_before.execute("INSERT INTO residual VALUES (1, 'layout', ?)", (bytes(5000),))
    agent_of_before.close()
    phone.kill()
    phone.pass_time(1)
    assert phone.transport.of("report") == [before]
    phone.hear(receipt())
    phone.pass_time(1)
    phone.pass_time(120)
    phone.be_assigned(2)
    phone.work()
    phone.work()
    assert frame.decode(phone.transport.of("report")[-1]).round == 2


def test_a_receipt_for_another_round_changes_nothing(phone):
    to_report(phone, 2)
    phone.hear(receipt(number=1))
    assert phone.state == "reporting"
    phone.hear(receipt(number=2))
    assert phone.state == "resting"


def test_a_chunked_report_is_asked_about_and_only_what_is_missing_sent(phone, monkeypatch):
    monkeypatch.setattr(frame, "MAX_PUBLISH_BYTES", 300)
    monkeypatch.setattr(frame, "CHUNK_PART_BYTES", 200)
    to_report(phone, codec=CodecChoice(name="dense-f32"))
    first = [frame.decode(sent) for sent in phone.transport.of("report")]
    assert [chunk.index for chunk in first] == list(range(len(first)))
    assert len(first) > 3
    phone.pass_time(10)
    assert phone.transport.of("query") == [Query(round=1, attempt=1, chunks=len(first))]
    assert len(phone.transport.of("report")) == len(first)
    phone.hear(Missing(round=1, attempt=1, chunks=(1, 3)))
    again = [frame.decode(sent).index for sent in phone.transport.of("report")[len(first) :]]
    assert again == [1, 3]
    whole = frame.join({chunk.index: chunk for chunk in first})
    assert frame.decode(whole).round == 1
    phone.hear(receipt())
    assert phone.state == "resting"


def test_missing_receipts_are_counted_and_said_after_the_third_sending_and_in_the_receipt(phone):
    to_report(phone)
    with structlog.testing.capture_logs() as logs:
        while len(phone.transport.of("report")) < 5:
            phone.pass_time(1)
        assert [(e["log_level"], e["sent_again"]) for e in logs if e["event"] == "no_receipt_yet"] == [("warning", 3)]
        phone.hear(receipt())
    (settled,) = [e for e in logs if e["event"] == "receipt"]
    assert settled["sent_again"] == 4
