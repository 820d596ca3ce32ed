import msgspec
import numpy as np
import pytest

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.driver import LISTEN_S
from nightjar.coordinator.engine.effect_runner import ANNOUNCED_FOR_S
from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.records.effects import EvaluateVersion, StartAggregation
from nightjar.coordinator.records.inbox import (
    ArtifactServed,
    BrokerConnected,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    JobEnded,
    SessionLost,
)
from nightjar.coordinator.records.jobs import AggregationDone, EvaluationJob, JobFailed
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks.settings import StrategyConfig
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.messages import Announcement, Dropout, DropoutCause, Rejection, RejectionReason, Status, Verdict
from tests.coordinator.engine.reporting import receipts, report, weights_of
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model


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
    assert sum(world.tables.rhythm.hours) == 4.0, "a device counts once an hour"


def test_nothing_that_is_logged_or_sent_holds_parameters(make_world, capsys):
    world = make_world()
    world.check_in("a", "b")
    for device in ("a", "b"):
        world.receive(device, "report", report(world, device, 0.123456))
    world.work()
    output = capsys.readouterr()
    assert "0.123" not in output.out + output.err


@pytest.mark.parametrize("back_s", [60.0, 3600.0, 30 * 86_400.0, 400 * 86_400.0])
def test_a_clock_that_is_set_back_stops_no_round(make_world, back_s):
    world = make_world()
    world.clock.time_s += 500 * 86_400.0
    world.listen()
    world.check_in("a", "b")
    world.clock.time_s -= back_s
    world.tick()
    world.receive("a", "report", report(world, "a", 0.01, 1))
    world.tick(LISTEN_S + 200.0)
    world.tick(200.0)
    assert world.phase_of(2) is Phase.ABANDONED, "its deadline passed, although the clock was set back"


def test_orders_are_not_signed_for_the_future_because_a_number_was_drawn_there(make_world):
    world = make_world()
    right_s = world.clock.time_s
    world.clock.time_s += 20 * 365 * 86_400.0
    world.driver._snapshot.number = int(world.clock.time_s * 1000)
    world.clock.time_s = right_s
    world.driver.handle(BrokerConnected())
    _topic, announcement, _retained = world.transport.sent[-1]
    assert announcement.signed_s == right_s
    assert announcement.number > right_s * 1000, "the number goes on, and devices rank orders by it"
