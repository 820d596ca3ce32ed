"""What every repository must do, the real one and the one in memory."""

import msgspec
import pytest

from nightjar.coordinator.records.effects import AnnounceModel, EvaluateVersion, SendMissing
from nightjar.coordinator.rounds.eligibility import Variant
from nightjar.coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from nightjar.coordinator.rounds.round import Phase, Round, open_round
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.tasks import task
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.wire.errors import IntegrityError
from nightjar.wire.messages import DropoutCause, RejectionReason, Verdict
from tests.coordinator.storage.records import RULES, A, B, chunk, pending, private_of, stored


def test_an_empty_one_has_nothing(repository):
    with repository.transaction() as tx:
        assert next(iter(tx.open_rounds()), None) is None
        assert tx.current_version() is None
        assert tx.last_round_number() == 0
        assert pending(tx) == []
        assert tx.lease(A) is None
        assert tx.counters() == {}


def test_an_empty_one_has_nothing_for_people(database):
    with database.transaction() as tx:
        assert tx.recent_rounds(5) == []
        assert tx.report_bytes_median() is None


def write_and_fail(repository) -> None:
    with repository.transaction() as tx:
        tx.count("reports_late")
        tx.add_report(stored(A), b"frame")
        tx.add_effect(AnnounceModel())
        raise RuntimeError


def test_what_was_written_before_an_exception_is_undone(started):
    with pytest.raises(RuntimeError):
        write_and_fail(started)
    with started.transaction() as tx:
        assert tx.counters() == {}
        assert tx.reports(1) == []
        assert pending(tx) == []


def test_a_round_is_replaced_and_found_while_it_is_open(started):
    seats = {A: Seat(state=SeatState.DROPPED, cause=DropoutCause.SILENT, earlier=(DropoutCause.IN_USE,))}
    with started.transaction() as tx:
        state = msgspec.structs.replace(next(iter(tx.open_rounds()), None), phase=Phase.REPORTING, seats=seats)
        tx.save_round(state)
    with started.transaction() as tx:
        assert next(iter(tx.open_rounds()), None) == tx.round(1) == state
        tx.save_round(msgspec.structs.replace(state, phase=Phase.ABANDONED, reason="nobody"))
    with started.transaction() as tx:
        assert next(iter(tx.open_rounds()), None) is None
        assert tx.round(1).reason == "nobody"
        assert tx.last_round_number() == 1


def test_reports_come_in_ascending_order_of_devices_and_each_only_once(started_database):
    with started_database.transaction() as tx:
        tx.add_report(stored(B), b"frame")
        tx.add_report(stored(A), b"frame")
    with pytest.raises(Exception, match=r"(?i)unique|twice"), started_database.transaction() as tx:
        tx.add_report(stored(A), b"frame")
    with started_database.transaction() as tx:
        assert [report.device for report in tx.reports(1)] == [A, B]
        assert tx.accepted_reports() == 2


def test_reports_and_chunks_of_some_devices_are_carried_to_another_round(started):
    with started.transaction() as tx:
        tx.add_report(stored(A), b"frame of a")
        tx.add_report(stored(B), b"frame of b")
        tx.add_chunk(chunk(A, 1), b"chunk of a")
        tx.save_round(msgspec.structs.replace(tx.round(1), phase=Phase.ABANDONED))
        tx.save_round(msgspec.structs.replace(tx.round(1), number=2, phase=Phase.REPORTING))
        tx.carry_reports(1, 2, [A])
    with started.transaction() as tx:
        assert [report.device for report in tx.reports(1)] == [B]
        assert tx.reports(2) == [msgspec.structs.replace(stored(A), round=2)]
        assert tx.chunks(1, A, 1) == []
        assert tx.chunk_frames(2, A, 1) == [b"chunk of a"]
        tx.carry_reports(1, 2, [])


def test_chunks_are_there_until_they_are_dropped(started):
    with started.transaction() as tx:
        tx.drop_chunks(1)
        tx.add_chunk(chunk(A, 1), b"second")
        tx.add_chunk(chunk(A, 0), b"first")
        tx.add_chunk(chunk(B, 1), b"second")
        assert tx.chunks(1, A, 1) == [chunk(A, 0), chunk(A, 1)]
        assert tx.chunk_frames(1, A, 1) == [b"first", b"second"]
        assert tx.chunks(1, A, 2) == []
    with started.transaction() as tx:
        tx.drop_chunks(1, A)
        assert (tx.chunks(1, A, 1), tx.chunk_frames(1, B, 1)) == ([], [b"second"])
        tx.drop_chunks(1)
        tx.drop_chunks(1)
    with started.transaction() as tx:
        assert tx.chunks(1, B, 1) == []


def test_frames_are_there_until_their_round_is_over_and_reports_stay(started):
    private = private_of(started)
    with started.transaction() as tx:
        tx.save_round(open_round(2, 0, RULES, 7, 10.0))
        for number in (1, 2):
            tx.add_report(stored(A, number), b"frame %d" % number)
    assert [private.frame(number, A, 1) for number in (1, 2)] == [b"frame 1", b"frame 2"]
    with started.transaction() as tx:
        tx.add_report(stored(B), b"frame of b")
        tx.drop_frames(1)
    for device in (A, B):
        with pytest.raises(IntegrityError, match=device):
            private.frame(1, device, 1)
    assert private.frame(2, A, 1) == b"frame 2"
    with started.transaction() as tx:
        assert tx.reports(1) == [stored(A), stored(B)]


def test_tasks_are_kept_in_the_order_in_which_they_were_made(repository):
    def record(name: str, number: int, **state) -> TaskRecord:
        made = Task(name=name, number=number, created_s=5.0, **state)
        return TaskRecord(state=made, settings=TaskSettings(name=name, variant=Variant(experiment="x", share=0.5)))

    with repository.transaction() as tx:
        assert (tx.tasks(), tx.task("a")) == ([], None)
        tx.save_task(record("b", 1))
        tx.save_task(record("a", 2))
    with repository.transaction() as tx:
        assert [each.name for each in tx.tasks()] == ["b", "a"]
        tx.save_task(record("b", 1, status=task.TaskStatus.PAUSED, reason="night", who="anna", best_top1=0.25))
    with repository.transaction() as tx:
        assert tx.task("b") == record("b", 1, status=task.TaskStatus.PAUSED, reason="night", who="anna", best_top1=0.25)
        assert len(tx.tasks()) == 2


def test_the_audit_log_counts_its_entries_and_is_read_backwards(database):
    entry = AuditEntry(at_s=5.0, who="anna", action="block-device", target="a", before="not blocked", after="blocked")
    with database.transaction() as tx:
        for _ in range(3):
            tx.add_audit(entry)
        assert [found.number for found in tx.audit(2)] == [3, 2]
        assert tx.audit(10, before=2) == [msgspec.structs.replace(entry, number=1)]


def test_effects_that_are_left_over_count_how_often_they_were_begun(repository):
    with repository.transaction() as tx:
        first = tx.add_effect(StartAggregation(1))
    with repository.transaction() as tx:
        assert tx.begin_effects() == [(first, StartAggregation(1), 1)]
        second = tx.add_effect(AnnounceModel())
    with repository.transaction() as tx:
        assert tx.begin_effects() == [(first, StartAggregation(1), 2), (second, AnnounceModel(), 1)]
        tx.remove_effects([first])
    with repository.transaction() as tx:
        assert tx.begin_effects() == [(second, AnnounceModel(), 2)]


def test_effects_keep_their_order_until_they_are_removed(repository):
    effects = [
        AssignDevice(A, 1, 1),
        RejectCheckIn(A, RejectionReason.NO_TASK, "done"),
        SendReceipt(A, 1, 1, Verdict.INVALID, "norm", "too long"),
        SendMissing(A, 1, 1, (0, 2)),
        StartAggregation(1),
        AnnounceModel(),
        EvaluateVersion(0),
    ]
    with repository.transaction() as tx:
        numbers = [tx.add_effect(effect) for effect in effects]
    with repository.transaction() as tx:
        assert pending(tx) == list(zip(numbers, effects, strict=True))
        tx.remove_effects(numbers[1:])
        tx.remove_effects([])
    with repository.transaction() as tx:
        assert pending(tx) == [(numbers[0], effects[0])]
        tx.remove_effects(numbers[:1])
        assert tx.add_effect(effects[0]) > max(numbers), "a number is never used again"


def test_counters_add_up(repository):
    with repository.transaction() as tx:
        tx.count("bytes_up", 100)
        tx.count("bytes_up", 50)
        tx.count("reports_late")
    with repository.transaction() as tx:
        assert tx.counters() == {"bytes_up": 150, "reports_late": 1}


def test_summaries_weigh_the_loss_by_examples(started_database):
    with started_database.transaction() as tx:
        tx.add_report(stored(A, loss=2.0, num_examples=1, size_bytes=100), b"frame")
        tx.add_report(stored(B, loss=4.0, num_examples=3, size_bytes=300), b"frame")
        tx.save_round(open_round(2, 0, RULES, 7, 50.0))
    with started_database.transaction() as tx:
        first, second = tx.recent_rounds(5)
        assert (first.mean_training_loss, first.report_bytes_median) == (3.5, 200)
        assert (second.mean_training_loss, second.report_bytes_median) == (None, None)
        assert [summary.number for summary in tx.recent_rounds(1)] == [2]
        assert [summary.number for summary in tx.recent_rounds(5, before=2)] == [1]
        assert tx.report_bytes_median() == 200


def test_the_state_of_a_round_is_what_it_was(started):
    with started.transaction() as tx:
        assert tx.round(1) == open_round(1, 0, RULES, 7, 10.0)
        assert isinstance(tx.round(1), Round)
