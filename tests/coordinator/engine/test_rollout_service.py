"""What becomes of versions, told by the driver among fakes: the gate, trials, operators."""

import hashlib

import msgspec
import pytest

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.records.inbox import JobEnded
from nightjar.coordinator.records.jobs import EvaluationDone
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.operations import OperationRefused, PromoteVersion, RollBack
from nightjar.coordinator.tasks.settings import StrategyConfig
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.rollout import Stage
from nightjar.models.manifest import Manifest
from nightjar.wire.messages import Assignment, Dropout, DropoutCause, Rejection, Work
from tests.coordinator.engine.rounds_of_versions import (
    BAD,
    GOOD,
    TRIAL,
    announced,
    begin_trial,
    check_in,
    hold_round,
    in_canary,
    killed_at_any_touch,
    operate,
    reason,
    report,
    stage,
    status_of,
)

# Without a share


def test_a_version_that_the_gate_lets_out_is_current_at_once(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    assert (stage(world, 0), stage(world, 1)) == (Stage.SUPERSEDED, Stage.CURRENT)
    assert reason(world, 0) == "by version 1"
    assert announced(world).version == 1
    assert world.tables.rounds[2].base_version == 1


def test_a_version_that_is_worse_on_held_out_text_is_refused_and_the_task_goes_on_from_the_former_one(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    world.measured = VersionMetrics(0.04, 0.2, 3.5)
    hold_round(world, "a", "b")
    assert stage(world, 2) is Stage.REFUSED
    assert reason(world, 2) == (
        "top-1 recall on the held-out examples fell from 10.0 % to 4.0 %; "
        "allowed are 1.0 points, or 3 standard errors (0.0)"
    )
    assert (stage(world, 1), announced(world).version) == (Stage.CURRENT, 1)
    assert world.phase_of(2) is Phase.COMMITTED
    assert world.tables.rounds[3].base_version == 1
    assert world.counters["versions_refused"] == 1
    world.measured = VersionMetrics(0.12, 0.2, 3.0)
    hold_round(world, "a", "b")
    assert (stage(world, 3), world.tables.versions[3].lineage.parent) == (Stage.CURRENT, 1)


def test_versions_cannot_get_worse_for_ever_in_steps_that_are_small_enough(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    world.measured = VersionMetrics(0.094, 0.2, 3.2)
    hold_round(world, "a", "b")
    assert stage(world, 2) is Stage.CURRENT
    world.measured = VersionMetrics(0.088, 0.2, 3.4)  # 0.6 points below the one before, 1.2 below the best
    hold_round(world, "a", "b")
    assert (stage(world, 3), announced(world).version) == (Stage.REFUSED, 2)
    assert "fell from 10.0 % to 8.8 %" in reason(world, 3)
    with world.repository.transaction() as tx:
        tx.save_held_out_text("2" * 64)  # as a start with another text does
    hold_round(world, "a", "b")
    assert stage(world, 4) is Stage.CURRENT


SLIDE = 0.049
"""Points of recall a round: a little less than a collapse."""


@pytest.mark.parametrize(("text", "lets_out"), [("own.tsv", 0), ("held_out.tsv", 1)])
def test_a_slide_of_almost_a_collapse_a_round_ends_at_the_first_or_the_second_version(
    make_world, tmp_path, text, lets_out
):
    world = make_world(evaluation_text=tmp_path / text)
    world.driver.handle(JobEnded(EvaluationDone(0, VersionMetrics(0.3, 0.4, 2.0))))
    for _ in range(6):
        made_from = announced(world).version
        world.measured = VersionMetrics(0.3 - SLIDE * (made_from + 1), 0.4, 2.0)
        hold_round(world, "a", "b")
    assert announced(world).version == lets_out
    assert [stage(world, number) for number in range(lets_out + 1, 7)] == [Stage.REFUSED] * (6 - lets_out)


MANY = tuple(f"d{number:02d}" for number in range(10))


def test_a_version_that_devices_find_worse_is_taken_back_after_its_first_round_and_so_is_what_was_trained_from_it(
    make_world,
):
    world = make_world(goal=10)
    hold_round(world, *MANY)
    assert stage(world, 1) is Stage.CURRENT
    hold_round(world, *MANY, hits=GOOD - 5)
    assert (stage(world, 0), stage(world, 1), stage(world, 2)) == (Stage.CURRENT, Stage.ROLLED_BACK, Stage.REFUSED)
    assert reason(world, 1) == (
        "top-1 recall on 10 devices that tried it is 15.0 %, with a version before it 20.0 % on 10"
    )
    assert "trained from version 1, and rounds go on from version 0" in reason(world, 2)
    assert announced(world).version == 0
    hold_round(world, *MANY)
    assert (stage(world, 3), world.tables.versions[3].lineage.parent) == (Stage.CURRENT, 0)


def test_only_the_states_of_an_optimizer_that_something_is_trained_from_are_kept(make_world):
    world = make_world(strategy=StrategyConfig(name=StrategyName.FEDAVGM))
    for _ in range(2):
        hold_round(world, "a", "b")
    world.measured = VersionMetrics(0.0, 0.0, 9.0)
    hold_round(world, "a", "b")
    kept = {number: record.optimizer_state for number, record in world.tables.versions.items()}
    assert [number for number, state in kept.items() if state] == [2]
    assert set(world.tables.states) == {kept[2]}


def test_a_version_knows_what_it_was_made_of_and_what_devices_found_of_the_one_before(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    made = world.tables.versions[1]
    assert (made.lineage.parent, made.lineage.reports, made.lineage.seed) == (0, 2, world.config.seed)
    assert made.lineage.codec.name == "dense-f32"
    hashes = "".join(report.sha256 for report in world.tables.reports.values())
    assert made.lineage.reports_sha256 == hashlib.sha256(hashes.encode()).hexdigest()
    tally = world.tables.federated[0]
    assert (tally.devices, tally.counted, tally.top1_before_of, tally.tried) == (2, 200, {10 * GOOD: 2}, 2)
    assert 1 not in world.tables.federated


def test_the_lineage_leaves_out_reports_that_proved_unreadable(make_world):
    world = make_world()
    check_in(world, "a", "b")
    world.tick(61.0)
    for device in ("a", "b"):
        report(world, device)
    done = do_job(world.worker.jobs.pop(), world.artifacts, world.private, lambda *_: world.measured)
    world.driver.handle(JobEnded(msgspec.structs.replace(done, unreadable=("b",), left_out=("a",))))
    assert (world.counters["reports_unreadable"], world.counters["reports_left_out"]) == (1, 1)
    lineage = world.tables.versions[1].lineage
    averaged = world.tables.reports[1, "a", 1].sha256
    assert (lineage.reports, lineage.reports_sha256) == (1, hashlib.sha256(averaged.encode()).hexdigest())


# With a share


def test_a_canary_is_announced_beside_the_current_version_and_only_its_devices_try_it(make_world):
    world = begin_trial(make_world)
    told = announced(world)
    assert (told.version, told.canary.version, told.canary.share) == (0, 1, 0.5)
    assert (world.tables.rounds[2].base_version, world.tables.rounds[2].trial) == (1, True)
    among, others = in_canary(world, 1, 2)
    check_in(world, *others)
    assert all("on trial" in world.transport.to(name, Rejection)[-1].detail for name in others)
    check_in(world, *among)
    world.tick(61.0)
    assert {world.assignment(name).version for name in among} == {1}
    assert {world.assignment(name).work for name in among} == {Work.EVALUATE}
    assert not any(world.transport.to(name, Assignment) for name in others)


def test_a_canary_that_does_no_harm_becomes_current_and_training_goes_on_from_it(make_world):
    world = begin_trial(make_world)
    hold_round(world, *in_canary(world, 1, 2)[0])
    assert (stage(world, 0), stage(world, 1)) == (Stage.SUPERSEDED, Stage.CURRENT)
    assert reason(world, 1) == "2 devices tried it and are none the worse"
    assert (announced(world).version, announced(world).canary) == (1, None)
    assert world.tables.rounds[2].version is None
    assert (world.tables.rounds[3].base_version, world.tables.rounds[3].trial) == (1, False)
    assert sorted(world.tables.versions) == [0, 1]


def test_a_canary_that_foresees_less_is_rolled_back_by_itself_with_the_figures(make_world):
    world = begin_trial(make_world)
    hold_round(world, *in_canary(world, 1, 2)[0], hits=BAD)
    assert (stage(world, 0), stage(world, 1)) == (Stage.CURRENT, Stage.ROLLED_BACK)
    assert reason(world, 1) == (
        "top-1 recall on 2 devices that tried it is 2.0 %, with a version before it 20.0 % on 2"
    )
    assert (announced(world).version, announced(world).canary) == (0, None)
    assert world.tables.rounds[3].base_version == 0
    assert world.counters["versions_rolled_back"] == 1


def test_a_canary_that_devices_cannot_run_is_rolled_back(make_world):
    world = begin_trial(make_world)
    among, _ = in_canary(world, 1, 2)
    check_in(world, *among)
    world.tick(61.0)
    for name in among:
        world.say(name, Dropout(round=2, attempt=1, cause=DropoutCause.TRAINING_FAILED))
    world.tick(100.0)
    assert world.phase_of(2) is Phase.ABANDONED
    assert stage(world, 1) is Stage.ROLLED_BACK
    assert "2 of 2 devices could not run it (training-failed 2)" in reason(world, 1)


def test_a_trial_goes_on_over_several_rounds_and_restarts(make_world):
    world = begin_trial(make_world)
    first, second = in_canary(world, 1, 2)[0]
    hold_round(world, first)
    assert stage(world, 1) is Stage.CANARY
    world.start()
    world.listen()
    assert announced(world).canary.version == 1
    assert world.tables.rounds[3].trial
    hold_round(world, second)
    assert stage(world, 1) is Stage.CURRENT


def test_a_trial_to_which_nobody_comes_ends(make_world):
    world = begin_trial(make_world)
    for _ in range(40):
        world.tick(130.0)
    assert stage(world, 1) is Stage.CURRENT
    assert reason(world, 1) == "only 0 of 2 devices tried it in 1 h, and none is the worse"


def test_the_optimizer_goes_on_from_its_state_before_a_version_that_was_rolled_back(make_world):
    world = make_world(rollout=TRIAL, strategy=StrategyConfig(name=StrategyName.FEDAVGM))
    hold_round(world, "a", "b")
    hold_round(world, *in_canary(world, 1, 2)[0])
    before = world.tables.versions[1].optimizer_state
    hold_round(world, "a", "b")
    assert (stage(world, 2), world.tables.versions[1].optimizer_state) == (Stage.CANARY, before)
    hold_round(world, *in_canary(world, 2, 2)[0], hits=BAD)
    assert (stage(world, 2), world.tables.versions[2].optimizer_state) == (Stage.ROLLED_BACK, None)
    assert set(world.tables.states) == {before}
    hold_round(world, "a", "b")
    assert world.tables.versions[3].lineage.parent == 1


def test_a_task_ends_when_its_last_version_was_tried_and_trials_are_no_rounds_of_it(make_world):
    world = make_world(rollout=TRIAL, rounds=2)
    hold_round(world, "a", "b")
    hold_round(world, *in_canary(world, 1, 2)[0])
    hold_round(world, "a", "b")
    assert (stage(world, 2), status_of(world)) == (Stage.CANARY, TaskStatus.ACTIVE)
    hold_round(world, *in_canary(world, 2, 2)[0])
    assert (stage(world, 2), status_of(world)) == (Stage.CURRENT, TaskStatus.FINISHED)
    assert world.tables.tasks["keyboard"].state.committed == 2


# Operators


def test_an_operator_goes_back_to_the_version_before_and_forward_again(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    hold_round(world, "a", "b")
    assert operate(world, RollBack(reason="words are missing")) is True
    assert [stage(world, n) for n in range(3)] == [Stage.SUPERSEDED, Stage.CURRENT, Stage.ROLLED_BACK]
    assert (reason(world, 2), announced(world).version) == ("words are missing", 1)
    current = max(world.tables.rounds)
    assert (world.tables.rounds[current].base_version, world.tables.rounds[current].phase) == (1, Phase.SELECTION)
    assert operate(world, PromoteVersion(2, "it was fine")) is True
    assert [stage(world, n) for n in range(3)] == [Stage.SUPERSEDED, Stage.SUPERSEDED, Stage.CURRENT]
    assert operate(world, PromoteVersion(2, "again")) is False
    entries = [(e.action, e.target, e.before, e.after) for e in world.tables.audit]
    assert entries == [
        ("roll-back", "2", "current", "rolled back: words are missing; version 1 instead"),
        ("promote-version", "2", "rolled-back", "current: it was fine"),
    ]


def test_an_operator_can_go_back_to_any_version(make_world):
    world = make_world()
    for _ in range(3):
        hold_round(world, "a", "b")
    assert operate(world, RollBack(reason="all of it", to=0)) is True
    assert [stage(world, n) for n in range(4)] == [
        Stage.CURRENT,
        Stage.SUPERSEDED,
        Stage.SUPERSEDED,
        Stage.ROLLED_BACK,
    ]
    hold_round(world, "a", "b")
    assert (stage(world, 4), world.tables.versions[4].lineage.parent) == (Stage.CURRENT, 0)


def test_a_promotion_that_was_a_mistake_is_taken_back_to_what_was_there_before_it(make_world):
    world = make_world()
    for _ in range(3):
        hold_round(world, "a", "b")
    assert operate(world, PromoteVersion(1, "a slip")) is True
    assert operate(world, RollBack(reason="no, the newest")) is True
    assert (stage(world, 1), stage(world, 3)) == (Stage.ROLLED_BACK, Stage.CURRENT)


def test_a_measurement_of_the_first_version_counts_for_the_gate(make_world):
    world = make_world()
    world.driver.handle(JobEnded(EvaluationDone(0, VersionMetrics(0.5, 0.6, 2.0))))
    hold_round(world, "a", "b")
    assert stage(world, 1) is Stage.REFUSED
    assert "fell from 50.0 % to 10.0 %" in reason(world, 1)


def test_an_operator_takes_back_a_canary_or_gives_it_to_all(make_world):
    world = begin_trial(make_world)
    assert operate(world, RollBack(reason="no")) is True
    assert (stage(world, 0), stage(world, 1), announced(world).canary) == (Stage.CURRENT, Stage.ROLLED_BACK, None)
    assert operate(world, PromoteVersion(1, "yes")) is True
    assert (stage(world, 0), stage(world, 1)) == (Stage.SUPERSEDED, Stage.CURRENT)


def test_promoting_another_version_ends_a_trial(make_world):
    world = begin_trial(make_world)
    hold_round(world, *in_canary(world, 1, 2)[0])
    hold_round(world, "a", "b")
    assert stage(world, 2) is Stage.CANARY
    assert operate(world, PromoteVersion(0, "the first one")) is True
    assert [stage(world, n) for n in range(3)] == [Stage.CURRENT, Stage.SUPERSEDED, Stage.ROLLED_BACK]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (PromoteVersion(9, "x"), "there is no version 9"),
        (RollBack(reason="x", version=9), "no such version"),
        (RollBack(reason="x"), "no version that devices could get instead"),
        (RollBack(reason="x", to=9), "no version that devices could get instead"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(make_world, operation, said):
    world = make_world()
    answer = operate(world, operation)
    assert isinstance(answer, OperationRefused)
    assert said in answer.reason
    assert not world.tables.audit


def test_what_was_trained_from_a_version_that_was_rolled_back_meanwhile_is_refused(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    check_in(world, "a", "b")
    report(world, "a")
    operate(world, RollBack(reason="no"))
    report(world, "b")
    world.work()
    assert stage(world, 2) is Stage.REFUSED
    assert "trained from version 1" in reason(world, 2)
    assert announced(world).version == 0
    hold_round(world, "a", "b")
    assert (stage(world, 3), world.tables.versions[3].lineage.parent) == (Stage.CURRENT, 0)


def test_the_manifest_of_each_version_says_its_number(make_world):
    world = make_world()
    hold_round(world, "a", "b")
    world.measured = VersionMetrics(0.0, 0.0, 9.0)
    hold_round(world, "a", "b")
    for number, record in world.tables.versions.items():
        assert Manifest.decode(world.artifacts.get(record.manifest)).version == number
    assert msgspec.json.decode(msgspec.json.encode(world.tables.versions[2].lineage))["parent"] == 1


def test_killed_at_any_touch_a_bad_canary_is_rolled_back_once_and_everybody_is_told(make_world):
    stories = killed_at_any_touch(
        lambda: begin_trial(make_world),
        lambda world: hold_round(world, *in_canary(world, 1, 2)[0], hits=BAD),
        lambda world: stage(world, 1) is not Stage.CANARY,
    )
    for killed_at, world in stories:
        assert (stage(world, 0), stage(world, 1)) == (Stage.CURRENT, Stage.ROLLED_BACK), killed_at
        assert world.counters["versions_rolled_back"] == 1
        assert (announced(world).version, announced(world).canary) == (0, None)
    assert killed_at > 30, "the story has more touches than that"
