"""``kill -9`` of the coordinator in every phase of a round, and between each commit and its effects."""

import contextlib

import pytest

from tests.faults.world import Coordinator, Phones, Supervisor, check_ledger

pytestmark = [pytest.mark.broker, pytest.mark.long]

POINTS = {
    "selection": 1,  # somebody waits in the pool
    "assigned-two": 1,  # some of the assignments are on their way
    "wrote-a-report": 2,  # and nothing is committed
    "averaging": 2,  # the worker is at it
    "committed-a-report": 3,  # and its receipt was not sent
    "committed-the-version": 3,  # and nobody was told
    "committed-the-selection": 4,  # and no assignment was sent
    "committed-the-last-report": 4,  # and the worker was not asked
}


def test_killed_at_every_point_the_rounds_go_on_as_if_nothing_had_happened(tmp_path, mosquitto):
    coordinator = Coordinator(
        tmp_path / "c", mosquitto.port, POINTS, rounds=5, goal=3, minimum=3, selection_deadline_s=30.0
    )
    phones = Phones(tmp_path / "phones", [f"phone-{i}" for i in range(4)], mosquitto.port, coordinator.url)
    with Supervisor(coordinator), phones:
        coordinator.wait_done(timeout_s=240)
    assert sorted(coordinator.died.read_text().split()) == sorted(POINTS), "it died at every point, once"
    assert coordinator.starts == 1 + len(POINTS)
    assert phones.starts == 1, "no agent needed a restart"
    ledger = check_ledger(coordinator, phones)
    assert (ledger["committed"], ledger["reports"]) == (5, 15)


BUFFERED_POINTS = {
    "wrote-a-report": 1,
    "averaging": 2,
    "committed-a-report": 3,
    "committed-the-selection": 4,  # a seat was given, and no assignment was sent
    "committed-the-version": 4,
    "committed-the-last-report": 5,
}


def test_killed_at_every_point_buffered_rounds_go_on_and_slow_phones_report_into_later_ones(tmp_path, mosquitto):
    coordinator = Coordinator(
        tmp_path / "c",
        mosquitto.port,
        BUFFERED_POINTS,
        rounds=8,
        goal=2,
        minimum=1,
        mode="buffered",
        concurrency=4,
        max_staleness=50,
    )
    fast = Phones(tmp_path / "fast", [f"fast-{i}" for i in range(3)], mosquitto.port, coordinator.url)
    slow = Phones(tmp_path / "slow", ["slow-0"], mosquitto.port, coordinator.url)
    with Supervisor(coordinator), contextlib.ExitStack() as running:
        slow.hold("training")
        running.enter_context(slow)
        slow.wait_for("assigned")
        running.enter_context(fast)
        coordinator.wait_until(lambda state: state["task"]["version"] >= 3, "three versions without the slow phone")
        slow.let_go("training")
        coordinator.wait_done(timeout_s=240)
    assert sorted(coordinator.died.read_text().split()) == sorted(BUFFERED_POINTS), "it died at every point, once"
    ledger = check_ledger(coordinator, fast, slow)
    assert ledger["committed"] == 8
    assert ledger["late"] >= 1
