"""Many messages in one transaction: faster, and otherwise as if they had come one by one."""

import contextlib
import functools
import threading
import time

import numpy as np
import pytest
import structlog

from nightjar.coordinator.engine import driver as driver_module
from nightjar.coordinator.records.inbox import ArtifactServed, MessageArrived, ShutdownRequested
from nightjar.coordinator.rounds.round import Phase
from nightjar.host.retrying import keep_trying
from nightjar.wire import messages, topics
from nightjar.wire.backoff import BackOff
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CheckIn, Receipt, Verdict
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import POPULATION, World
from tests.coordinator.model_folder import LAYOUT, write_model

DEVICES = ("a", "b", "c", "d")


@pytest.fixture
def world(tmp_path):
    return World(write_model(tmp_path), tmp_path, goal=4, minimum=2)


@pytest.fixture
def reporting(world):
    world.check_in(*DEVICES)
    assert world.phase_of(1) is Phase.REPORTING
    world.acknowledged = 0
    return world


def send_report(world: World, device: str) -> None:
    data = report_frame(
        world.assignment(device), np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, num_examples=ord(device)
    )
    world.receive(device, "report", data)


def verdicts(world: World) -> dict[str, list[Verdict]]:
    return {device: [said.verdict for said in world.transport.to(device, Receipt)] for device in DEVICES}


def count_transactions(world: World, monkeypatch) -> list[int]:
    counted = [0]
    original = world.repository.transaction

    def transaction():
        counted[0] += 1
        return original()

    monkeypatch.setattr(world.repository, "transaction", transaction)
    return counted


def test_no_device_waits_for_work_that_follows_from_its_report(reporting, monkeypatch):
    seen, submit = [], reporting.worker.submit

    def looked(job):
        seen.append((reporting.acknowledged, verdicts(reporting)))
        submit(job)

    monkeypatch.setattr(reporting.worker, "submit", looked)
    with reporting.together():
        send_report(reporting, DEVICES[0])
    with reporting.together():
        for device in DEVICES[1:]:
            send_report(reporting, device)
    assert seen == [(4, {device: [Verdict.ACCEPTED] for device in DEVICES})]


def test_a_batch_is_written_in_one_transaction_and_each_of_it_is_answered(reporting, monkeypatch):
    transactions = count_transactions(reporting, monkeypatch)
    with reporting.together():
        for device in DEVICES[:3]:
            send_report(reporting, device)
    assert transactions[0] <= 2  # one to write all three, one to look up how many devices there are
    assert reporting.acknowledged == 3
    assert verdicts(reporting) == {"a": [Verdict.ACCEPTED], "b": [Verdict.ACCEPTED], "c": [Verdict.ACCEPTED], "d": []}
    assert len(reporting.tables.frames) == 3


def test_the_round_goes_on_within_a_batch(reporting):
    with reporting.together():
        for device in (*DEVICES, "a", "nobody"):
            reporting.receive(device, "report", report_of(reporting, device))
    assert verdicts(reporting)["a"] == [Verdict.ACCEPTED, Verdict.DUPLICATE]
    assert verdicts(reporting)["d"] == [Verdict.ACCEPTED]
    assert reporting.phase_of(1) is Phase.COMMITTING
    reporting.work()
    assert reporting.phase_of(1) is Phase.COMMITTED


def report_of(world: World, device: str) -> bytes:
    known = device if device in DEVICES else "a"
    return report_frame(
        world.assignment(known), np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, num_examples=ord(known)
    )


def test_a_message_that_our_code_cannot_stand_spoils_no_other(reporting, monkeypatch):
    intake = reporting.driver._messages
    original = intake.take

    def take(arrived, turn):
        original(arrived, turn)
        if "/c/" in arrived.topic:
            raise ZeroDivisionError

    monkeypatch.setattr(intake, "take", take)
    with reporting.together():
        for device in DEVICES:
            send_report(reporting, device)
    assert verdicts(reporting) == {d: [Verdict.ACCEPTED] if d != "c" else [] for d in DEVICES}
    assert sorted(device for _, device, _ in reporting.tables.reports) == ["a", "b", "d"]
    assert reporting.counters["events_failed"] == 1
    assert reporting.acknowledged == 4
    assert len(reporting.tables.frames) == 3, "the bytes of the failed one are not kept"


def test_what_cannot_be_stored_is_neither_acknowledged_nor_answered_and_can_be_tried_again(reporting):
    reporting.repository.on_touch = _full_disk
    with pytest.raises(UnavailableError):
        send_two_reports(reporting)
    reporting.repository.on_touch = lambda: None
    assert (reporting.acknowledged, reporting.tables.reports) == (0, {})
    assert not any(verdicts(reporting).values())
    send_two_reports(reporting)
    assert verdicts(reporting)["a"] == verdicts(reporting)["b"] == [Verdict.ACCEPTED]


def send_two_reports(world: World) -> None:
    with world.together():
        for device in DEVICES[:2]:
            send_report(world, device)


def _full_disk() -> None:
    raise UnavailableError("no space left on device; free some space")


# The thread


QUICKLY = functools.partial(keep_trying, back_off=BackOff(0.002, 0.002))


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(driver_module, "keep_trying", QUICKLY)


@contextlib.contextmanager
def running(world: World):
    """The driver's own loop, on a thread; joined at the end."""
    failed = []

    def run() -> None:
        try:
            world.driver.run()
        except UnavailableError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failed
    finally:
        world.driver.post(ShutdownRequested())
        thread.join(60)
    assert not thread.is_alive()


def arrived(device: str, acknowledged: threading.Event) -> MessageArrived:
    offer = messages.encode(CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=to_name()))
    return MessageArrived(topics.up(POPULATION, DeviceId(device), "check-in", 1), offer, acknowledge=acknowledged.set)


@pytest.mark.parametrize("tick_s", [0.001, 60])
def test_downloads_are_counted_with_a_tick_or_at_the_end(world, monkeypatch, tick_s):
    monkeypatch.setattr(driver_module, "TICK_S", tick_s)
    with running(world):
        for size_bytes in (1, 20, 300):
            world.driver.post(ArtifactServed(size_bytes))
            time.sleep(0.01)
    assert world.counters["bytes_down"] == 321


def test_a_disk_that_is_full_at_the_start_is_waited_for(world, impatient):
    """A shell that holds the database just then must not end a coordinator that has said that it is ready."""
    acknowledged, left = threading.Event(), [3]

    def touch() -> None:
        if left[0]:
            left[0] -= 1
            _full_disk()

    world.repository.on_touch = touch
    with structlog.testing.capture_logs() as lines, running(world) as failed:
        world.driver.post(arrived("a", acknowledged))
        assert acknowledged.wait(60)
    assert (failed, left, world.driver.trouble) == ([], [0], "")
    assert [line["event"] for line in lines if "stored" in line["event"]] == ["not_stored", "stored_again"]


def test_a_disk_that_is_full_for_a_while_is_said_and_waited_for(world, impatient):
    acknowledged, said, left = threading.Event(), [], [0]

    def touch() -> None:
        if left[0]:
            left[0] -= 1
            said.append((world.driver.trouble, acknowledged.is_set()))
            _full_disk()

    world.repository.on_touch = touch
    with structlog.testing.capture_logs() as lines, running(world) as failed:
        world.driver.post(arrived("a", acknowledged))
        assert acknowledged.wait(60)
        acknowledged.clear()
        left[0] = 3
        world.driver.post(arrived("b", acknowledged))
        assert acknowledged.wait(60)
    assert failed == []
    assert [line["event"] for line in lines if "stored" in line["event"]] == ["not_stored", "stored_again"]
    assert (world.driver.trouble, left) == ("", [0])
    assert said[-1] == ("no space left on device; free some space", False)
    assert world.tables.rounds[1].pool == ("a", "b")


def test_a_disk_that_stays_full_ends_the_process(world, impatient, monkeypatch):
    monkeypatch.setattr(driver_module, "keep_trying", functools.partial(QUICKLY, give_up_after_s=0.01))
    ended = threading.Event()
    with running(world) as failed:
        acknowledged = threading.Event()
        world.driver.post(arrived("a", acknowledged))
        assert acknowledged.wait(60)

        def touch() -> None:
            world.clock.time_s += 1.0
            ended.set()
            _full_disk()

        world.repository.on_touch = touch
        world.driver.post(arrived("b", threading.Event()))
        assert ended.wait(60)
        while not failed:
            threading.Event().wait(0.01)
    assert len(failed) == 1


def test_an_effect_that_fails_is_tried_again_and_its_messages_are_not_taken_twice(world, impatient, monkeypatch):
    acknowledged = threading.Event()
    execution, left = world.driver._runner, [2]
    original = execution.carry_out

    def carry_out(*arguments):
        if left[0]:
            left[0] -= 1
            _full_disk()
        return original(*arguments)

    with running(world) as failed:
        monkeypatch.setattr(execution, "carry_out", carry_out)
        for device in DEVICES:
            world.driver.post(arrived(device, acknowledged if device == "d" else threading.Event()))
        assert acknowledged.wait(60)
    assert failed == []
    assert left == [0]
    assert all(world.assignment(device).round == 1 for device in DEVICES)
    assert world.phase_of(1) is Phase.REPORTING


def test_a_flood_is_taken_in_batches_of_bounded_size(world, monkeypatch):
    monkeypatch.setattr(driver_module, "MOST_EVENTS", 3)
    sizes, original = [], world.driver._take

    def take(batch):
        sizes.append(len(batch))
        original(batch)

    monkeypatch.setattr(world.driver, "_take", take)
    acknowledged = threading.Event()
    for number in range(10):
        world.driver.post(arrived(f"p{number}", acknowledged if number == 9 else threading.Event()))
    with running(world):
        assert acknowledged.wait(60)
    assert max(sizes) == 3
