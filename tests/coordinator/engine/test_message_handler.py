"""What a message is answered with, or why it changes nothing."""

import hashlib

import numpy as np
import pytest

from nightjar.coordinator.records.inbox import MessageArrived
from nightjar.wire import frame, messages
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import Assignment, CheckIn, Receipt, Verdict
from tests.coordinator.engine.reporting import delta, receipts, report, weights_of
from tests.coordinator.fake_device import report_frame
from tests.coordinator.model_folder import LAYOUT


def test_a_late_report_and_a_strangers_get_their_receipts_and_change_nothing(make_world):
    world = make_world(over_selection=1.5)
    world.check_in("a", "b", "c")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    before = weights_of(world)
    world.receive("c", "report", report(world, "c", 9.0))
    world.receive("nobody", "report", report(world, "c", 9.0))
    assert receipts(world, "c") == [Verdict.LATE]
    (receipt,) = world.transport.to("nobody", Receipt)
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "not-selected")
    assert world.counters["reports_late"] == world.counters["reports_invalid:not-selected"] == 1
    np.testing.assert_array_equal(weights_of(world), before)


def test_a_report_of_a_round_that_never_was_is_refused(make_world):
    world = make_world()
    world.check_in("a", "b")
    forged = report_frame(Assignment(**{**_fields(world.assignment("a")), "round": 99}), delta(0.01), LAYOUT)
    world.receive("a", "report", forged)
    (receipt,) = world.transport.to("a", Receipt)
    assert (receipt.round, receipt.code) == (99, "not-selected")


def _fields(message) -> dict:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def test_a_broken_frame_of_a_selected_device_settles_its_seat_and_any_other_is_only_counted(make_world):
    world = make_world()
    world.check_in("a", "b")
    whole = report(world, "a")
    world.receive("a", "report", whole[:-1])
    world.receive("nobody", "report", whole[:-1])
    (receipt,) = world.transport.to("a", Receipt)
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "truncated")
    assert world.transport.to("nobody") == []
    assert world.counters["malformed_messages"] == 1


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("nightjar/1/demo/up/0/a/check-in", b"\xff"),
        ("nightjar/1/demo/up/0/a/check-in", b'{"agent_version":"0.1.0","runtime":"x","examples":-1}'),
        ("nightjar/1/demo/up/0/a/check-in", b" " * 17_000),
        ("nightjar/1/demo/up/0/a/report", b"x"),
        ("nightjar/1/demo/up/0/a/receipt", b"{}"),
        ("nightjar/1/other/up/0/a/check-in", b"{}"),
        ("nightjar/1/demo/announce", b"{}"),
        ("nightjar/1/demo/status/a", b"[]"),
        ("something/else", b"x"),
    ],
)
def test_malformed_messages_are_counted_acknowledged_and_change_nothing(make_world, topic, payload):
    world = make_world()
    before = dict(world.tables.rounds)
    acknowledged = []
    world.driver.handle(MessageArrived(topic, payload, acknowledge=lambda: acknowledged.append(1)))
    assert acknowledged == [1]
    assert world.counters["malformed_messages"] == 1
    assert world.tables.rounds == before
    assert world.transport.to("a") == []


def test_what_waits_when_its_device_is_cut_off_is_acknowledged_and_changes_nothing(make_world):
    world = make_world()
    before, acknowledged = dict(world.counters), []
    world.driver.handle(
        MessageArrived(
            "nightjar/1/demo/up/0/a/check-in",
            CHECK_IN,
            acknowledge=lambda: acknowledged.append(1),
            refused=lambda: True,
        )
    )
    assert (acknowledged, world.counters, world.transport.to("a")) == ([1], before, [])


def test_reports_that_begin_and_end_alike_and_have_one_checksum_are_told_apart(make_world):
    world = make_world()
    world.check_in("a", "b")
    one = report(world, "a")
    other = bytearray(one)
    place = len(one) // 2
    for offset, byte in enumerate((1 | 0xEDB88320 << 1).to_bytes(5, "little")):  # the CRC's polynomial
        other[place + offset] ^= byte
    assert (one[:64], one[-64:]) == (other[:64], other[-64:])
    frame.decode(bytes(other))
    with world.together():
        world.receive("a", "report", one)
        world.receive("a", "report", bytes(other))
    assert [receipt.verdict for receipt in world.transport.to("a", Receipt)] == [Verdict.ACCEPTED, Verdict.DUPLICATE]
    assert world.tables.reports[1, "a", 1].sha256 == hashlib.sha256(one).hexdigest()
    assert world.tables.frames[1, "a", 1] == one


CHECK_IN = messages.encode(CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=to_name()))


@pytest.mark.parametrize(
    ("topic", "payload", "retained", "limit"),
    [
        ("up/0/a/check-in", CHECK_IN, True, "retained messages"),
        ("up/0/a/receipt", b"{}", True, "topics"),
        ("up/0/a/report", bytes(frame.MAX_PACKET_BYTES + 1), True, "packet size"),
        ("status/a", bytes(frame.MAX_PACKET_BYTES + 1), False, "packet size"),
        ("status/a", b"[]", True, None),
    ],
    ids=["retained", "topic", "large-report", "large-status", "unreadable-status"],
)
def test_what_a_broker_should_have_refused_gives_nobody_a_seat_and_is_cleared_there(
    make_world, topic, payload, retained, limit
):
    world = make_world()
    before = dict(world.tables.rounds)
    for _ in range(2):  # a second subscription
        world.driver.handle(MessageArrived(f"nightjar/1/demo/{topic}", payload, retained))
        assert world.transport.cleared.pop() == f"nightjar/1/demo/{topic}"
        world.driver.handle(MessageArrived(f"nightjar/1/demo/{topic}", b""))  # what clears it comes to us, too
    assert world.transport.cleared == []
    assert (world.tables.rounds, world.tables.leases) == (before, {})
    assert world.counters["malformed_messages"] == 2
    assert world.driver.not_enforced == ([limit] if limit else [])


def test_what_is_retained_where_nobody_may_publish_is_not_cleared(make_world):
    world = make_world()
    world.driver.handle(MessageArrived("nightjar/1/demo/up/0/+/check-in", CHECK_IN, retained=True))
    assert world.transport.cleared == []


def test_a_message_is_acknowledged_only_after_it_is_dealt_with(make_world):
    world = make_world()
    world.check_in("a", "b")
    assert world.acknowledged == 2
    world.repository.on_touch = _broken_disk
    with pytest.raises(UnavailableError):
        world.receive("a", "report", report(world, "a"))
    assert world.acknowledged == 2


def _broken_disk() -> None:
    raise UnavailableError("no space left")


def test_a_defect_in_one_message_does_not_end_the_process(make_world, monkeypatch):
    world = make_world()
    monkeypatch.setattr(world.driver._messages, "take", lambda *_: 1 / 0)
    world.check_in("a")
    assert world.counters == {"events_failed": 1}
    assert world.acknowledged == 1


def test_one_device_that_checks_in_all_the_time_counts_once_an_hour(make_world):
    """The attack: its check-ins made an hour look busy, and everybody's retry came three times as late."""
    world = make_world()
    for _ in range(300):
        world.check_in("pushy")
    world.check_in("b", "c")
    counted = sum(world.tables.rhythm.hours)
    world.clock.time_s += 3600
    world.check_in("pushy")
    later = sum(world.tables.rhythm.hours)
    assert (counted, later) == (3, pytest.approx(4, abs=0.95))  # older ones fade at midnight
