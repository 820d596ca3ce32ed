"""Large reports, which come in chunks."""

import hashlib

import numpy as np
import pytest

from nightjar.coordinator.rounds.report_checks import max_report_bytes
from nightjar.coordinator.rounds.round import Phase
from nightjar.wire import frame
from nightjar.wire.messages import Missing, Query, Receipt, Verdict
from tests.coordinator.engine.reporting import receipts
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model


@pytest.fixture
def large_world(tmp_path):
    """A model whose dense report needs two chunks."""
    manifest = write_model(tmp_path, tuple(f"w{number}" for number in range(12_000)))
    return World(manifest, tmp_path)


def large_report(world: World, device: str, value: float = 0.001) -> tuple[bytes, list[bytes]]:
    layout = world.manifest.layout
    asked = world.assignment(device)
    whole = report_frame(asked, np.full(layout.size, value, np.float32), layout)
    chunks = frame.publishes(whole, asked.round, asked.attempt)
    assert len(chunks) == 2
    return whole, chunks


def test_chunks_in_any_order_and_more_than_once_make_one_report(large_world):
    large_world.check_in("a", "b")
    whole, (first, second) = large_report(large_world, "a")
    for chunk in (second, second, first):
        large_world.receive("a", "report", chunk)
    assert receipts(large_world, "a") == [Verdict.ACCEPTED]
    assert large_world.tables.chunks == {}
    (stored,) = large_world.tables.reports.values()
    assert stored.sha256 == hashlib.sha256(whole).hexdigest()
    assert large_world.tables.frames == {(1, "a", 1): whole}
    large_world.receive("a", "report", first)
    large_world.receive("a", "report", second)
    assert receipts(large_world, "a") == [Verdict.ACCEPTED, Verdict.DUPLICATE]


def test_two_devices_may_send_the_same_chunks(large_world):
    large_world.check_in("a", "b")
    _, (first, second) = large_report(large_world, "a")
    large_world.receive("b", "report", first)
    for chunk in (first, second):
        large_world.receive("a", "report", chunk)
    large_world.receive("b", "report", second)
    assert receipts(large_world, "a") == receipts(large_world, "b") == [Verdict.ACCEPTED]


def test_a_query_is_answered_with_what_is_missing_or_with_the_receipt(large_world):
    large_world.check_in("a", "b")
    _, (first, second) = large_report(large_world, "a")
    query = Query(round=1, attempt=1, chunks=2)
    large_world.receive("a", "report", second)
    large_world.say("a", query)
    assert large_world.transport.to("a", Missing) == [Missing(round=1, attempt=1, chunks=(0,))]
    large_world.start()
    large_world.receive("a", "report", first)
    large_world.say("a", query)
    assert receipts(large_world, "a") == [Verdict.ACCEPTED, Verdict.DUPLICATE]
    assert "reports_duplicate" not in large_world.counters
    large_world.say("nobody", query)
    assert receipts(large_world, "nobody") == [Verdict.INVALID]


def test_chunks_of_strangers_are_not_stored_and_answered_once(large_world):
    large_world.check_in("a", "b")
    _, chunks = large_report(large_world, "a")
    for chunk in chunks:
        large_world.receive("nobody", "report", chunk)
    assert receipts(large_world, "nobody") == [Verdict.INVALID]
    assert (large_world.tables.frames, large_world.tables.chunks) == ({}, {})


def test_a_report_larger_than_any_of_this_model_is_refused_at_its_first_chunk(large_world):
    large_world.check_in("a", "b")
    asked = large_world.assignment("a")
    for chunk in frame.publishes(bytes(10_000_000), asked.round, asked.attempt)[:1]:
        large_world.receive("a", "report", chunk)
    (receipt,) = large_world.transport.to("a", Receipt)
    assert receipt.code == "too-large"
    assert (large_world.tables.frames, large_world.tables.chunks) == ({}, {})


def test_a_question_after_more_chunks_than_a_report_can_have_is_refused(large_world):
    large_world.check_in("a", "b")
    most = frame.chunks_of(max_report_bytes(large_world.manifest.layout))
    large_world.say("a", Query(round=1, attempt=1, chunks=most))
    assert large_world.transport.to("a", Missing)[-1].chunks == tuple(range(most))
    large_world.say("a", Query(round=1, attempt=1, chunks=65535))
    (receipt,) = large_world.transport.to("a", Receipt)
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "too-large")
    assert len(large_world.transport.to("a", Missing)) == 1


def test_chunks_that_disagree_about_the_length_are_malformed(large_world):
    large_world.check_in("a", "b")
    whole, (first, _) = large_report(large_world, "a")
    large_world.receive("a", "report", first)
    other = frame.publishes(whole + bytes(4), 1, 1)
    large_world.receive("a", "report", other[1])
    assert large_world.counters["malformed_messages"] == 1
    assert len(large_world.tables.chunks) == 1


def test_chunks_that_do_not_hold_a_report_settle_the_seat(large_world):
    large_world.check_in("a", "b")
    whole, _ = large_report(large_world, "a")
    for chunk in frame.publishes(bytes(len(whole)), 1, 1):
        large_world.receive("a", "report", chunk)
    (receipt,) = large_world.transport.to("a", Receipt)
    assert (receipt.verdict, receipt.code) == (Verdict.INVALID, "magic")
    assert (large_world.tables.frames, large_world.tables.chunks) == ({}, {})


def test_unfinished_chunks_are_dropped_with_their_round(large_world):
    large_world.listen()
    large_world.check_in("a", "b")
    _, (first, _) = large_report(large_world, "a")
    large_world.receive("a", "report", first)
    large_world.tick(101.0)
    assert large_world.phase_of(1) is Phase.ABANDONED
    assert (large_world.tables.frames, large_world.tables.chunks) == ({}, {})
