"""What every repository must do, the real one and the one in memory."""

import contextlib
import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from coordinator.engine.effects import AnnounceModel, EvaluateVersion, SendMissing
from coordinator.engine.jobs import VersionMetrics
from coordinator.learning.device_metrics import Tally, merged
from coordinator.ports import Lineage, StoredChunk, StoredReport, VersionRecord
from coordinator.rounds.admission import Variant
from coordinator.rounds.events import AssignDevice, RejectCheckIn, SendReceipt, StartAggregation
from coordinator.rounds.labelling import Labelling, LabelRule
from coordinator.rounds.lease import Lease, Presence
from coordinator.rounds.pace_steering import Rhythm, check_in_counted
from coordinator.rounds.round import Phase, Round, open_round
from coordinator.rounds.rules import RoundRules
from coordinator.rounds.seats import Seat, SeatState
from coordinator.storage.database import Database
from coordinator.storage.engine import IN_MEMORY
from coordinator.storage.private import PrivateTables
from coordinator.tasks import task
from coordinator.tasks.operations import AuditEntry
from coordinator.tasks.record import TaskRecord
from coordinator.tasks.settings import TaskSettings
from coordinator.tasks.task import Task
from coordinator.versions.releases import DeviceGroup, Release
from coordinator.versions.rollout import Rollout, Stage
from simulation.rounds.storage import MemoryRepository as SimulatedRepository
from wire.errors import IntegrityError
from wire.identifiers import DeviceId
from wire.messages import CodecChoice, DropoutCause, RejectionReason, Verdict

RULES = RoundRules(
    goal=2,
    minimum=2,
    over_selection=1.0,
    selection_window_s=0,
    selection_deadline_s=60,
    report_deadline_s=100,
    lost_grace_s=10,
)
A, B = DeviceId("a"), DeviceId("b")


KINDS = ["sqlite", "memory", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    with contextlib.closing(opened(request, tmp_path)) as database:
        yield database


@pytest.fixture(params=[*KINDS, "simulation"])
def repository(request, tmp_path):
    """What the driver needs of a database; what people ask is the real one's alone."""
    if request.param == "simulation":
        yield SimulatedRepository()
        return
    with contextlib.closing(opened(request, tmp_path)) as database:
        yield database


def opened(request, tmp_path):
    match request.param:
        case "sqlite":
            return Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
        case "memory":
            return Database(IN_MEMORY)
        case _:
            return Database(request.getfixturevalue("postgresql"))


@pytest.fixture
def started(repository):
    """With version 0 and round 1."""
    return start(repository)


@pytest.fixture
def started_database(database):
    return start(database)


def start(repository):
    with repository.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="0" * 64, created_s=1.0))
        tx.save_round(open_round(1, 0, RULES, 7, 10.0))
    return repository


def stored(device: DeviceId, round_number: int = 1, **changes) -> StoredReport:
    report = StoredReport(
        round=round_number,
        device=device,
        attempt=1,
        sha256="1" * 64,
        size_bytes=100,
        num_examples=5,
        steps=1,
        loss=2.0,
        seconds=0.5,
        norm=1.0,
        received_s=20.0,
    )
    return msgspec.structs.replace(report, **changes)


def chunk(device: DeviceId, number: int) -> StoredChunk:
    return StoredChunk(round=1, device=device, attempt=1, number=number, count=3, total_bytes=9)


def pending(tx):
    return [(number, effect) for number, effect, _begun in tx.begin_effects()]


def private_of(repository):
    return repository.view if isinstance(repository, SimulatedRepository) else PrivateTables(repository)


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


def test_states_of_optimizers_are_there_until_they_are_dropped_or_no_version_has_them(started):
    private = private_of(started)
    names = [private.keep_state(data) for data in (b"one", b"two", b"two", b"three")]
    assert names[1] == names[2] == hashlib.sha256(b"two").hexdigest()
    assert [private.state(name) for name in names] == [b"one", b"two", b"two", b"three"]
    with started.transaction() as tx:
        tx.add_version(VersionRecord(version=1, manifest="5" * 64, optimizer_state=names[0]))
        tx.drop_state(names[1])
        tx.drop_state(names[1])
    assert private.state(names[3]) == b"three"
    with started.transaction() as tx:
        tx.sweep_states()
    assert private.state(names[0]) == b"one"
    for name in names[1:]:
        with pytest.raises(IntegrityError, match=name):
            private.state(name)


def test_what_a_report_changes_of_a_lease_is_changed_and_nothing_else(started_database):
    said = Lease(device=A, presence=Presence.READY, state="checked-in", last_seen_s=1.0, runtime="litert", examples=3)
    other = replace(said, device=B)
    with started_database.transaction() as tx:
        tx.save_lease(said)
        tx.save_lease(other)
    heard = replace(said, presence=Presence.PRESENT, last_seen_s=2.0, last_round=7, rounds_counted=5)
    with started_database.transaction() as tx:
        tx.save_lease(heard)
        tx.save_lease(replace(other, last_seen_s=3.0, reason="in use"))
    with started_database.transaction() as tx:
        assert tx.leases(10) == [heard, replace(other, last_seen_s=3.0, reason="in use")]
        tx.save_lease(replace(heard, last_seen_s=4.0))
        assert tx.leases(1) == [replace(heard, last_seen_s=4.0)]
        tx.save_lease(replace(heard, last_seen_s=5.0, blocked="lost"))
        tx.save_lease(replace(heard, last_seen_s=6.0, blocked="lost"))
    with started_database.transaction() as tx:
        assert tx.leases(1) == [replace(heard, last_seen_s=6.0, blocked="lost")]


def test_what_was_rolled_back_of_a_lease_is_not_taken_for_written(started_database):
    lease = Lease(device=A, presence=Presence.READY, state="checked-in", last_seen_s=1.0)
    with contextlib.suppress(KeyError), started_database.transaction() as tx:
        tx.save_lease(lease)
        tx.devices_since(0.0)
        raise KeyError
    with started_database.transaction() as tx:
        tx.save_lease(replace(lease, last_seen_s=2.0))
    with started_database.transaction() as tx:
        assert tx.leases(1) == [replace(lease, last_seen_s=2.0)]


def test_leases_are_replaced_and_counted_by_when_they_were_seen(database):
    with database.transaction() as tx:
        tx.save_lease(Lease(device=B, presence=Presence.READY, last_seen_s=10.0, program="4" * 64))
        tx.save_lease(Lease(device=A, last_seen_s=5.0))
        tx.save_lease(
            Lease(
                device=A,
                last_seen_s=20.0,
                reason="not charging",
                examples=3,
                emulated=True,
                last_round=2**40,
                rounds_counted=2**50 - 1,
            )
        )
    with database.transaction() as tx:
        assert (tx.lease(A).presence, tx.lease(A).reason, tx.lease(A).examples) == (Presence.AWAY, "not charging", 3)
        assert (tx.lease(A).last_round, tx.lease(A).rounds_counted) == (2**40, 2**50 - 1)
        assert tx.lease(B).program == "4" * 64
        assert tx.devices_since(15.0) == 1
        assert [lease.device for lease in tx.leases(10)] == [A, B]
        assert [lease.device for lease in tx.leases(1)] == [A]
        assert [lease.device for lease in tx.leases_after(1, "")] == [A]
        assert [lease.device for lease in tx.leases_after(9, A)] == [B]


def test_devices_are_counted_by_what_they_do_and_only_the_ineligible_by_why(repository):
    with repository.transaction() as tx:
        for number, (state, reason) in enumerate(
            [
                ("ineligible", "not charging"),
                ("ineligible", "not charging"),
                ("ineligible", "in use"),
                ("resting", "again in 30 s"),
                ("resting", "again in 31 s"),
            ]
        ):
            device = DeviceId(f"d{number}")
            tx.save_lease(Lease(device=device, presence=Presence.PRESENT, state=state, reason=reason))
    with repository.transaction() as tx:
        assert tx.device_states() == {
            ("ineligible", "not charging"): 2,
            ("ineligible", "in use"): 1,
            ("resting", ""): 2,
        }


def test_the_rules_for_labels_are_kept_and_devices_come_by_name(repository):
    labelling = Labelling(rules=(LabelRule(label="small", maximum_memory_mb=1024),), dropped=("old",), after="b")
    with repository.transaction() as tx:
        assert tx.labelling() == Labelling()
        tx.save_labelling(labelling)
        for name in ("c", "a", "b"):
            tx.save_lease(Lease(device=DeviceId(name), memory_bytes=1 << 33))
    with repository.transaction() as tx:
        assert tx.labelling() == labelling
        assert [lease.device for lease in tx.leases_after(2, "")] == ["a", "b"]
        assert [lease.memory_bytes for lease in tx.leases_after(2, "b")] == [1 << 33]


def test_the_rhythm_is_kept(repository):
    with repository.transaction() as tx:
        assert tx.rhythm() == Rhythm()
        tx.save_rhythm(check_in_counted(tx.rhythm(), 1e9))
        tx.save_rhythm(check_in_counted(tx.rhythm(), 1e9))
    with repository.transaction() as tx:
        assert sum(tx.rhythm().hours) == 2
        assert tx.rhythm().since_s == 1e9


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


def test_rounds_and_versions_know_their_tasks(database):
    with database.transaction() as tx:
        for number, name in enumerate(("a", "b", "a")):
            tx.add_version(VersionRecord(version=number, task=name, manifest=str(number) * 64))
        for number, name in ((1, "a"), (2, "b")):
            tx.save_round(open_round(number, 0, RULES, 7, 10.0, task=name))
    with database.transaction() as tx:
        assert [(state.number, state.task) for state in tx.open_rounds()] == [(1, "a"), (2, "b")]
        assert [tx.current_version(name).version for name in "ab"] == [2, 1]
        assert tx.current_version().version == 2
        assert tx.current_version("c") is None
        assert [record.version for record in tx.versions(10, task="a")] == [0, 2]
        assert [summary.number for summary in tx.recent_rounds(10, task="b")] == [2]
        assert [(summary.number, summary.task) for summary in tx.recent_rounds(10)] == [(1, "a"), (2, "b")]
        tx.save_round(msgspec.structs.replace(tx.round(1), phase=Phase.ABANDONED, closed_at_s=11.0))
    with database.transaction() as tx:
        assert [state.task for state in tx.open_rounds()] == ["b"]
        assert [(summary.number, summary.task) for summary in tx.recent_rounds(10)] == [(1, "a"), (2, "b")]


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


def test_versions_keep_their_metrics(started):
    with started.transaction() as tx:
        tx.save_version(replace(tx.version(0), metrics=VersionMetrics(0.1, 0.2, 3.0)))
        tx.add_version(VersionRecord(version=1, manifest="5" * 64, round=1, optimizer_state="6" * 64, created_s=2.0))
    with started.transaction() as tx:
        assert tx.version(0).metrics == VersionMetrics(0.1, 0.2, 3.0)
        assert tx.current_version().optimizer_state == "6" * 64
        assert [record.version for record in tx.versions(10)] == [0, 1]
        assert [record.version for record in tx.versions(1)] == [1]
        assert [record.version for record in tx.versions(1, before=1)] == [0]


def test_a_version_keeps_all_that_is_known_of_it(started):
    known = VersionRecord(
        version=3,
        manifest="5" * 64,
        round=1,
        created_s=2.0,
        rollout=Rollout(stage=Stage.CANARY, reason="20 % of the devices try it", since_s=3.0),
        lineage=Lineage(parent=0, reports=2, reports_sha256="c" * 64, codec=CodecChoice(name="topk-4")),
    )
    with started.transaction() as tx:
        tx.add_version(known)
    with started.transaction() as tx:
        assert tx.version(3) == tx.canary_version() == known
        assert (tx.current_version().version, tx.last_version_number()) == (0, 3)
        moved = replace(known, rollout=Rollout(stage=Stage.CURRENT, reason="tried", since_s=4.0), lineage=None)
        tx.save_version(moved)
    with started.transaction() as tx:
        assert tx.version(3) == tx.current_version() == moved
        assert tx.canary_version() is None


def test_what_devices_found_of_a_version_is_replaced_as_a_whole(started):
    one = Tally(devices=2, counted=9, top1_before_of={200: 1, 250: 1}, tried=3, failures={"diverged": 1})
    with started.transaction() as tx:
        assert tx.federated(0) == Tally()
        tx.save_federated(0, one)
    with started.transaction() as tx:
        assert tx.federated(0) == one
        tx.save_federated(0, merged(one, one))
    with started.transaction() as tx:
        assert tx.federated(0) == merged(one, one)


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


def test_another_held_out_text_is_noted_with_the_newest_version_that_was_not_measured_on_it(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    with database.transaction() as tx:
        assert tx.measured_since() == -1
        tx.add_version(VersionRecord(version=0, manifest="0" * 64))
        tx.save_held_out_text("a" * 64)
    with database.transaction() as tx:
        assert (tx.held_out_text(), tx.measured_since()) == ("a" * 64, 0)
    database.close()


def test_the_devices_of_a_release_are_counted_by_what_became_of_them(database):
    on_trial = Rollout(stage=Stage.CANARY, since_s=1000.0)
    release = Release(version="0.2.0", rollout=on_trial, since_round=3)
    with database.transaction() as tx:
        tx.save_releases((release,))
        for name, fields in {
            "well": {"agent_version": "0.2.0", "last_round": 5, "agent_round": 3, "labels": "kitchen porch"},
            "back": {"agent_version": "0.1.0", "taken_back": "0.2.0: not up"},
            "other": {"agent_version": "0.1.0", "last_round": 4, "taken_back": "0.2.01: %_"},
        }.items():
            tx.save_lease(Lease(device=DeviceId(name), last_seen_s=1500.0, **fields))
    with database.transaction() as tx:
        assert tx.releases() == (release,)
        health = tx.release_health(release, 2000.0)
        assert tx.devices_with(("porch", "kitchen")) == ["well"]
        assert tx.devices_with(("porch", "cellar")) == tx.devices_with(("kitch",)) == []
    assert health.tried == DeviceGroup(devices=2, taken_back=1, trained=1)
    assert health.others == DeviceGroup(devices=1, trained=1)
