"""What the pages ask a database: on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.round import Phase, open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.storage import reading
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fleet import Sample
from nightjar.coordinator.storage.reading import HeardPosition, Wanted
from nightjar.coordinator.storage.versions import VersionMeasurement
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.wire.identifiers import DeviceId

RULES = RoundRules(
    goal=3,
    minimum=2,
    over_selection=1.3,
    selection_window_s=0,
    selection_deadline_s=60,
    report_deadline_s=100,
    lost_grace_s=10,
)
A, B = DeviceId("a"), DeviceId("b")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    url = request.getfixturevalue("postgresql") if request.param == "postgresql" else f"sqlite:///{tmp_path / 'x'}"
    made = Database(url)
    with made.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="0" * 64))
    yield made
    made.close()


def report(number: int, device: DeviceId, **fields) -> StoredReport:
    usual = {"attempt": 1, "sha256": "0" * 64, "size_bytes": 100, "num_examples": 2, "steps": 1, "loss": 3.0}
    rest = {"seconds": 1.0, "norm": 1.0, "received_s": 1.0}
    return StoredReport(round=number, device=device, **{**usual, **rest, **fields})


def committed(number: int, **fields):
    seats = {A: Seat(state=SeatState.REPORTED), B: Seat(state=SeatState.REPORTED)}
    state = open_round(number, 0, RULES, 7, 10.0 * number)
    return replace(state, phase=Phase.COMMITTED, version=0, closed_at_s=10.0 * number + 5, seats=seats, **fields)


def lease(name: str, last_seen_s: float, **fields) -> Lease:
    return Lease(device=DeviceId(name), presence=Presence.PRESENT, last_seen_s=last_seen_s, **fields)


def names(leases):
    return [each.device for each in leases]


def test_a_round_that_is_over_is_summed_up_once_and_its_reports_are_not_read_again(database):
    with database.transaction() as tx:
        tx.save_round(open_round(1, 0, RULES, 7, 10.0))
        tx.add_report(report(1, A, size_bytes=100, num_examples=1, loss=2.0), b"frame")
        tx.add_report(report(1, B, size_bytes=300, num_examples=3, loss=4.0), b"frame")
    with database.transaction() as tx:
        tx.save_round(committed(1))
    with database.transaction() as tx:
        tx._connection.exec_driver_sql("DELETE FROM reports")
        (summary,) = tx.recent_rounds(5)
    assert (summary.accepted, summary.report_bytes, summary.report_bytes_median) == (2, 400, 200)
    assert (summary.mean_training_loss, summary.closed_at_s) == (3.5, 15.0)


def test_a_round_that_was_over_before_summaries_were_kept_is_still_told_of(database):
    with database.transaction() as tx:
        tx.save_round(committed(1))
        tx.add_report(report(1, A), b"frame")
    with database.transaction() as tx:
        tx._connection.exec_driver_sql("DELETE FROM round_summaries")
        (summary,) = tx.recent_rounds(5)
    assert (summary.accepted, summary.report_bytes) == (2, 100)


def test_rounds_are_listed_by_phase_and_from_a_number_on(database):
    with database.transaction() as tx:
        for number in range(1, 7):
            over = committed(number)
            tx.save_round(over if number % 2 else replace(over, phase=Phase.ABANDONED, version=None))
    with database.transaction() as tx:
        assert [each.number for each in tx.recent_rounds(2, phase=Phase.COMMITTED)] == [3, 5]
        assert [each.number for each in tx.recent_rounds(2, before=3, phase=Phase.COMMITTED)] == [1]


def test_accepted_reports_are_counted_along(database):
    with database.transaction() as tx:
        tx.save_round(open_round(1, 0, RULES, 7, 10.0))
        tx.add_report(report(1, A), b"frame")
        tx.add_report(report(1, B), b"frame")
        assert tx.accepted_reports() == 2
    with database.transaction() as tx:
        assert tx.accepted_reports() == 2


def test_reports_are_found_by_their_device_and_by_their_round(database):
    with database.transaction() as tx:
        for number in (1, 2, 3):
            tx.save_round(open_round(number, 0, RULES, 7, 10.0))
            tx.add_report(report(number, A), b"frame")
        tx.add_report(report(3, B), b"frame")
    with database.transaction() as tx:
        assert [each.round for each in tx.reports_of(A, [1, 3, 9])] == [3, 1]
        assert names(tx.reports_in(3, [B])) == [B]


def test_devices_come_by_when_they_were_heard_of_and_pages_meet(database):
    with database.transaction() as tx:
        for name, last_seen_s in (("a", 5.0), ("b", 9.0), ("c", 5.0), ("d", 1.0)):
            tx.save_lease(lease(name, last_seen_s))
    with database.transaction() as tx:
        first, after = tx.search_devices(Wanted(), 2, None)
        second, last = tx.search_devices(Wanted(), 2, after)
        third, end = tx.search_devices(Wanted(), 2, last)
    assert (names(first), names(second), names(third), end) == (["b", "c"], ["a", "d"], [], None)


def test_devices_are_found_by_what_is_wanted_of_them(database):
    with database.transaction() as tx:
        tx.save_lease(lease("alpha", 1.0, state="training", version=1))
        tx.save_lease(lease("alps", 2.0, state="ineligible", reason="in use", blocked="odd"))
        tx.save_lease(lease("Alps", 3.0, state="ineligible", reason="not charging"))
    with database.transaction() as tx:

        def found(**wanted):
            return names(tx.search_devices(Wanted(**wanted), 9, None)[0])

        assert found(name="al") == ["alpha", "alps"]
        assert found(name="al%") == []
        assert found(states=frozenset({"training"})) == ["alpha"]
        assert found(reason="in use") == ["alps"]
        assert found(blocked=True) == ["alps"]
        assert found(version=1) == ["alpha"]
        assert names(tx.search_devices(Wanted(name="al"), 9, HeardPosition(0.0, "alpha"))[0]) == ["alps"]


def test_a_search_looks_at_so_many_and_says_where_it_stopped(database, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_SEARCHED", 3)
    with database.transaction() as tx:
        for number in range(8):
            tx.save_lease(lease(f"d{number}", 100.0 - number, state="training" if number == 6 else "resting"))
    wanted, after, found, steps = Wanted(states=frozenset({"training"})), None, [], 0
    with database.transaction() as tx:
        while steps < 9:
            leases, after = tx.search_devices(wanted, 5, after)
            found, steps = found + names(leases), steps + 1
            if after is None:
                break
    assert (found, steps) == (["d6"], 3)


def test_who_holds_what_counts_devices_that_were_heard_of_lately(database):
    with database.transaction() as tx:
        tx.save_lease(lease("a", 50.0, version=1))
        tx.save_lease(lease("b", 60.0, version=1))
        tx.save_lease(lease("c", 70.0))
        tx.save_lease(lease("d", 1.0, version=2))
        assert tx.holders(40.0) == {1: 2}


def test_samples_are_kept_for_a_while(database):
    def sample(at_s):
        return Sample(at_s=at_s, groups={"waiting": 1}, holders={}, reports=0, bytes_up=0, bytes_down=0, busy=0.0)

    with database.transaction() as tx:
        for at_s in (10.0, 20.0, 30.0):
            tx.add_sample(sample(at_s), 15.0)
    with database.transaction() as tx:
        assert [each.at_s for each in tx.samples(0.0, 1)] == [20.0, 30.0]
        assert tx.samples(25.0, 1) == [sample(30.0)]
        for at_s in (40.5, 50.0, 60.0, 70.0):
            tx.add_sample(sample(at_s), 90.0)
        assert [each.at_s for each in tx.samples(0.0, 30)] == [20.0, 30.0, 60.0, 70.0]
        assert tx.samples(80.0, 30) == []


def test_samples_of_a_clock_that_was_ahead_go_with_the_first_of_one_that_is_right(database):
    """Proven before: one of 20 years ahead had the overview draw 350,000 half-hours, for 20 years."""
    for at_s in (20.0, 7e8, 30.0):
        with database.transaction() as tx:
            tx.add_sample(Sample(at_s=at_s, groups={}, holders={}, reports=0, bytes_up=0, bytes_down=0, busy=0.0), 7e9)
    with database.transaction() as tx:
        assert [each.at_s for each in tx.samples(0.0, 1)] == [20.0, 30.0]


def test_the_pulse_differs_after_what_pages_show_and_only_then(database):
    def pulse():
        with database.transaction() as tx:
            return tx.pulse()

    before = pulse()
    assert pulse() == before
    for change in (lambda tx: tx.count("bytes_up"), lambda tx: tx.save_round(open_round(1, 0, RULES, 7, 1.0))):
        with database.transaction() as tx:
            change(tx)
        assert pulse() != before
        before = pulse()


def test_what_was_measured_of_the_newest_versions_of_a_task(database):
    metrics = VersionMetrics(0.2, 0.3, 4.0)
    with database.transaction() as tx:
        for number, task in enumerate(["keyboard", "keyboard", "other", "keyboard"], start=1):
            tx.add_version(VersionRecord(version=number, task=task, manifest="0" * 64, round=number))
        for number in (1, 2, 3):
            tx.save_version(replace(tx.version(number), metrics=metrics))
    with database.transaction() as tx:
        assert tx.measured(9, "keyboard") == [VersionMeasurement(1, 1, metrics), VersionMeasurement(2, 2, metrics)]
        assert tx.measured(2, "keyboard") == [VersionMeasurement(2, 2, metrics)]
        assert tx.measured(9, "nobody") == []
