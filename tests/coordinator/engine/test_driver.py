import contextlib
import hashlib

import msgspec
import numpy as np
import pytest

from coordinator.engine.aggregation import do_job
from coordinator.engine.driver import LISTEN_S
from coordinator.engine.effect_runner import ANNOUNCED_FOR_S
from coordinator.engine.effects import EvaluateVersion, StartAggregation
from coordinator.engine.inbox import (
    ArtifactServed,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    JobEnded,
    MessageArrived,
    SessionLost,
)
from coordinator.engine.jobs import AggregationDone, EvaluationJob, JobFailed
from coordinator.learning.strategies import StrategyName
from coordinator.rounds.report_checks import max_report_bytes
from coordinator.rounds.round import Phase
from coordinator.rounds.seats import SeatState
from coordinator.tasks.settings import StrategyConfig
from models.manifest import Manifest
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import Killed, World
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model
from wire import frame, messages
from wire.crash_loop import CRASHES_ALLOWED
from wire.errors import RemoteProtocolError, UnavailableError
from wire.messages import (
    Announcement,
    Assignment,
    CheckIn,
    Dropout,
    DropoutCause,
    Missing,
    Query,
    Receipt,
    Rejection,
    RejectionReason,
    Status,
    Verdict,
)
from wire.parameters import weights_from_bytes


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    return lambda **task: World(manifest, tmp_path, **task)


def delta(value: float) -> np.ndarray:
    return np.full(LAYOUT.size, value, np.float32)


def report(world: World, device: str, value: float = 0.01, num_examples: int = 5) -> bytes:
    return report_frame(world.assignment(device), delta(value), LAYOUT, num_examples)


def receipts(world: World, device: str) -> list[Verdict]:
    return [message.verdict for message in world.transport.to(device, Receipt)]


def weights_of(world: World) -> np.ndarray:
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.current_version().manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), manifest.layout)


def test_a_round_from_check_in_to_the_next_version(make_world):
    world = make_world()
    world.check_in("a", "b")
    assert world.assignment("a").report_deadline_s == 100.0
    world.receive("a", "report", report(world, "a", 0.01, 1))
    world.receive("b", "report", report(world, "b", 0.02, 3))
    assert receipts(world, "a") == receipts(world, "b") == [Verdict.ACCEPTED]
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED
    np.testing.assert_allclose(weights_of(world), INITIAL + (0.01 + 0.02 / 2) / 2, rtol=1e-6)
    assert world.phase_of(2) is Phase.SELECTION
    assert world.tables.rounds[2].base_version == 1
    topic, announcement, retained = world.transport.sent[-1]
    assert topic.endswith("/announce")
    assert retained
    manifest = world.tables.versions[1].manifest
    signed_s = announcement.signed_s
    assert announcement == Announcement(
        version=1,
        manifest=manifest,
        task="keyboard",
        number=world.driver._snapshot.number,
        signed_s=signed_s,
        not_after_s=signed_s + ANNOUNCED_FOR_S,
        check_in_within_s=0.002,
    )


def test_reports_are_deleted_when_their_round_is_over_and_their_figures_stay(make_world):
    world = make_world()
    world.check_in("a", "b")
    for value, device in enumerate(("a", "b"), 1):
        world.receive(device, "report", report(world, device, 0.01 * value))
    assert len(world.tables.frames) == 2
    world.work()
    assert world.tables.frames == {}
    assert len(world.tables.reports) == 2


def test_momentum_is_carried_from_round_to_round(make_world):
    world = make_world(strategy=StrategyConfig(name=StrategyName.FEDAVGM, server_learning_rate=1.0))
    for _ in range(2):
        world.check_in("a", "b")
        for device in ("a", "b"):
            world.receive(device, "report", report(world, device, 0.01))
        world.work()
    # v1 = 0.01, v2 = 0.9 * 0.01 + 0.01, clipped by a tenth because all of the first round was within the clip norm
    np.testing.assert_allclose(weights_of(world), INITIAL + 0.01 + 0.009 + 0.01 * np.exp(-0.1), rtol=1e-5)
    assert len(world.tables.states) == 1, "only the newest optimizer state is kept"


def test_the_task_is_done_after_its_rounds_and_check_ins_get_no_task(make_world):
    world = make_world(rounds=1)
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    world.check_in("a")
    assert world.transport.to("a", Rejection)[-1].reason is RejectionReason.NO_TASK
    world.receive("a", "report", report(world, "a"))
    assert receipts(world, "a")[-1] is Verdict.DUPLICATE
    world.start()
    assert list(world.tables.rounds) == [1]


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


CHECK_IN = messages.encode(CheckIn(agent_version="0.1.0", runtime="none", examples=10))


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


def test_deadlines_stand_still_while_the_broker_is_away_and_shortly_after(make_world):
    world = make_world()
    world.check_in("a", "b")
    world.driver.handle(BrokerDisconnected())
    world.tick(500.0)
    assert world.phase_of(1) is Phase.REPORTING
    world.start()
    world.tick(LISTEN_S / 2)
    assert world.phase_of(1) is Phase.REPORTING
    world.receive("a", "report", report(world, "a"))
    world.tick(LISTEN_S)
    assert world.phase_of(1) is Phase.ABANDONED
    assert world.counters["dropouts:silent"] == 1


def test_dropouts_are_counted_by_cause_and_uncounted_when_the_report_comes_after_all(make_world):
    world = make_world(goal=2, over_selection=1.5)
    world.listen()
    world.check_in("a", "b", "c")
    asked = world.assignment("a")
    world.say("a", Dropout(round=asked.round, attempt=asked.attempt, cause=DropoutCause.TOO_HOT))
    world.status("b", Status(online=False))
    world.tick(11.0)
    assert world.counters["dropouts:too-hot"] == world.counters["dropouts:connection-lost"] == 1
    world.receive("b", "report", report(world, "b"))
    assert receipts(world, "b") == [Verdict.ACCEPTED]
    assert world.counters["dropouts:connection-lost"] == 0


def test_a_dropout_of_another_round_is_ignored(make_world):
    world = make_world()
    world.check_in("a", "b")
    world.say("a", Dropout(round=7, attempt=1, cause=DropoutCause.TOO_HOT))
    assert world.tables.rounds[1].seats["a"].state is SeatState.WORKING


@pytest.mark.parametrize("status", [Status(online=False), Status(online=True, state="ineligible")])
def test_a_device_that_says_it_is_gone_leaves_the_pool(make_world, status):
    world = make_world()
    world.check_in("a")
    world.status("a", status)
    assert world.tables.rounds[1].pool == ()


def test_a_status_of_checked_in_keeps_the_place_in_the_pool(make_world):
    world = make_world()
    world.check_in("a")
    world.status("a", Status(online=True, state="checked-in"))
    assert world.tables.rounds[1].pool == ("a",)


def test_refused_check_ins_say_why(make_world):
    world = make_world(minimum_examples=5)
    world.check_in("poor", examples=4)
    world.check_in("old", agent_version="0.0.9")
    assert world.transport.to("poor", Rejection)[0].reason is RejectionReason.TOO_FEW_EXAMPLES
    assert world.transport.to("old", Rejection)[0].reason is RejectionReason.OUTDATED_AGENT
    assert world.tables.rounds[1].pool == ()


def test_too_few_devices_are_told_to_come_back_and_a_new_round_opens(make_world):
    world = make_world()
    world.listen()
    world.check_in("a")
    world.tick(60.0)
    (rejection,) = world.transport.to("a", Rejection)
    assert rejection.reason is RejectionReason.TOO_FEW_DEVICES
    assert rejection.detail == world.tables.rounds[1].reason == "waiting: 1 of 2 phones eligible"
    assert world.counters["rounds_abandoned:too-few-devices"] == 1
    assert rejection.retry_after_s >= 5.0
    assert world.phase_of(2) is Phase.SELECTION


def test_a_failed_aggregation_abandons_the_round_and_leaves_the_model(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.driver.handle(JobEnded(JobFailed("the worker died", round=1)))
    assert world.phase_of(1) is Phase.ABANDONED
    assert "the worker died" in world.tables.rounds[1].reason
    np.testing.assert_array_equal(weights_of(world), INITIAL)
    assert StartAggregation(1) not in world.tables.effects.values()


def test_a_result_that_comes_twice_commits_once(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    again = AggregationDone(1, "0" * 64, 4 * LAYOUT.size, None, None)
    world.driver.handle(JobEnded(again))
    assert sorted(world.tables.versions) == [0, 1]


def test_an_average_that_is_not_finite_is_refused(make_world):
    world = make_world(strategy=StrategyConfig(server_learning_rate=1000.0))
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device, 1e7))
    (job,) = world.worker.jobs
    too_much = msgspec.structs.replace(job, strategy=msgspec.structs.replace(job.strategy, learning_rate=1e38))
    with pytest.raises(RemoteProtocolError, match="not be finite"), np.errstate(over="ignore"):
        do_job(too_much, world.artifacts, world.private, lambda *_: None)


def test_the_imported_version_is_measured_when_there_is_a_text(tmp_path):
    manifest = write_model(tmp_path)
    world = World(manifest, tmp_path, evaluation_text=tmp_path / "text.tsv")
    with world.repository.transaction() as tx:
        tx.add_effect(EvaluateVersion(0))
    world.start()
    assert isinstance(world.worker.jobs[0], EvaluationJob)
    world.work()
    assert world.tables.versions[0].metrics.top1 == 0.1
    world.start()
    assert world.worker.jobs == []


def test_bytes_and_broker_losses_are_counted(make_world):
    world = make_world()
    world.driver.handle(ArtifactServed(1000))
    world.driver.handle(ArtifactServed(500))
    world.driver.handle(BrokerDropped(3))
    world.driver.handle(BrokerRefused("not authorized"))
    world.check_in("a")
    assert world.counters["bytes_down"] == 1500
    assert world.counters["broker_dropped"] == 3
    assert world.counters["broker_refused"] == 1
    assert world.counters["bytes_up"] > 20


def test_a_lost_session_is_counted_and_announced_so_that_every_device_says_again_what_was_not_answered(make_world):
    world = make_world()
    world.driver.handle(SessionLost(1))
    assert world.counters["broker_sessions_lost"] == 1
    (topic, _, retained) = world.transport.sent[-1]
    assert (topic.endswith("/announce"), retained) == (True, True)


# Chunks


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


# Killed


class Script:
    """A round as devices and the worker live it: what is not answered is done again.

    With ``batched`` the messages of a step come together.
    """

    def __init__(self, world: World, *, batched: bool) -> None:
        self.world = world
        self._gather = world.together if batched else contextlib.nullcontext

    def run(self) -> None:
        world = self.world
        with self._gather():
            for device in ("a", "b", "c"):
                if not world.transport.to(device, Assignment):
                    world.check_in(device)
        with self._gather():
            for number, device in enumerate(("a", "b")):
                settled = Verdict.ACCEPTED in receipts(world, device) or Verdict.DUPLICATE in receipts(world, device)
                if world.transport.to(device, Assignment) and not settled:
                    world.receive(device, "report", report(world, device, 0.01 * (number + 1), number + 1))
        world.work()

    @property
    def finished(self) -> bool:
        answered = {Verdict.ACCEPTED, Verdict.DUPLICATE}
        return 1 in self.world.tables.versions and all(answered & set(receipts(self.world, d)) for d in "ab")


def summary(world: World) -> dict:
    with world.repository.transaction() as tx:
        first = tx.round(1)
    return {
        "weights": weights_of(world).tobytes(),
        "versions": sorted(world.tables.versions),
        "accepted": first.devices(SeatState.REPORTED),
        "phase": first.phase,
        "reports": sorted(world.tables.reports),
        "examples": [stored.num_examples for _, stored in sorted(world.tables.reports.items())],
        "open": world.tables.rounds[max(world.tables.rounds)].phase,
    }


def touches(make_world, *, batched: bool) -> int:
    world = make_world(over_selection=1.5)
    count = 0

    def touch() -> None:
        nonlocal count
        count += 1

    world.touch_with(touch)
    Script(world, batched=batched).run()
    assert Script(world, batched=batched).finished
    return count


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_killed_at_any_step_and_started_again_the_round_ends_the_same(make_world, batched):
    undisturbed = make_world(over_selection=1.5)
    Script(undisturbed, batched=False).run()
    expected = summary(undisturbed)
    total = touches(make_world, batched=batched)
    assert total > (25 if batched else 40)
    for fatal in range(total):
        world = make_world(over_selection=1.5)
        script = Script(world, batched=batched)
        left = [fatal]

        def touch(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Killed

        world.touch_with(touch)
        for _ in range(6):
            try:
                script.run()
            except Killed:
                world.start()
            if script.finished:
                break
        assert left[0] <= -1
        assert summary(world) == expected, f"killed at touch {fatal}"
        assert world.tables.frames == {}, f"killed at touch {fatal}: reports were left lying"


def test_killed_before_the_assignment_went_out_it_goes_out_after_the_restart(make_world):
    world = make_world()
    world.check_in("a")
    world.transport.on_touch = _kill
    with pytest.raises(Killed):
        world.check_in("b")
    world.transport.on_touch = lambda: None
    assert world.transport.to("a", Assignment) == []
    world.start()
    assert world.transport.to("a", Assignment)
    assert world.transport.to("b", Assignment)


def _kill() -> None:
    raise Killed


def test_killed_while_averaging_the_job_is_done_again(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    assert len(world.worker.jobs) == 1
    world.start()
    assert len(world.worker.jobs) == 1
    world.work()
    assert world.phase_of(1) is Phase.COMMITTED


def test_an_averaging_that_ends_the_process_again_and_again_is_set_aside(make_world):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    for _ in range(CRASHES_ALLOWED - 1):
        world.start()
        assert len(world.worker.jobs) == 1
    world.start()
    assert world.worker.jobs == []
    assert world.phase_of(1) is Phase.ABANDONED
    assert world.tables.rounds[1].reason == "averaging failed: the coordinator ended 3 times while it was at it"
    assert world.phase_of(2) is Phase.SELECTION
    assert world.counters["effects_set_aside"] == 1
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    assert world.phase_of(2) is Phase.COMMITTED


def test_a_version_whose_measuring_ends_the_process_stays_unmeasured(tmp_path):
    world = World(write_model(tmp_path), tmp_path, evaluation_text=tmp_path / "text.tsv")
    with world.repository.transaction() as tx:
        tx.add_effect(EvaluateVersion(0))
    for _ in range(CRASHES_ALLOWED):
        world.start()
    assert world.worker.jobs == []
    assert EvaluateVersion(0) not in world.tables.effects.values()
    assert world.phase_of(1) is Phase.SELECTION


def test_nobody_there_is_a_reason_too_and_writes_ever_fewer_rounds(make_world):
    world = make_world()
    world.listen()
    world.status("a", Status(online=True, state="ineligible", reason="not charging"))
    for _ in range(24 * 60):
        world.tick(60.0)
    over = [state for state in world.tables.rounds.values() if state.phase is Phase.ABANDONED]
    assert over[0].reason == "waiting: 0 of 2 phones eligible; 1 not charging"
    assert len(over) == world.counters["rounds_abandoned:nobody-came"] < 40
    world.check_in("a", "b")
    assert world.phase_of(len(over) + 1) is Phase.REPORTING


def test_a_phone_that_took_part_is_left_in_peace_as_long_as_the_task_says(make_world):
    world = make_world(minimum_separation=2, goal=1, minimum=1)
    world.check_in("a")
    world.receive("a", "report", report(world, "a"))
    world.work()
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert rejection.reason is RejectionReason.TOOK_PART_LATELY
    assert rejection.detail == "it took part in round 1 and may again from round 3 on"
    assert world.tables.rounds[2].pool == ()
    world.check_in("b")
    world.receive("b", "report", report(world, "b"))
    world.work()
    world.check_in("a")
    assert world.phase_of(3) is Phase.REPORTING


def test_devices_that_are_sent_away_while_a_round_runs_are_called_to_its_usual_end(make_world):
    world = make_world()
    world.check_in("a", "b")
    world.tick(80.0)
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device))
    world.work()
    world.check_in("a", "b")
    world.tick(20.0)
    world.check_in("c", "d")
    for device in ("c", "d"):
        (rejection,) = world.transport.to(device, Rejection)
        assert rejection.reason is RejectionReason.ROUND_IN_PROGRESS
        assert 60.0 <= rejection.retry_after_s <= 66.0
    assert world.tables.rhythm.usual_round_s == 80.0
    assert sum(world.tables.rhythm.hours) == 6.0


def test_nothing_that_is_logged_or_sent_holds_parameters(make_world, capsys):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device, 0.123456))
    world.work()
    output = capsys.readouterr()
    assert "0.123" not in output.out + output.err


def test_a_defect_in_one_message_does_not_end_the_process(make_world, monkeypatch):
    world = make_world()
    monkeypatch.setattr(world.driver._intake, "take", lambda *_: 1 / 0)
    world.check_in("a")
    assert world.counters == {"events_failed": 1}
    assert world.acknowledged == 1
