"""What keyboards measured decides which version is announced, and which one rounds train from."""

from collections import defaultdict

import numpy as np
import pytest

from nightjar.coordinator.learning.downlink import VERSIONS_BACK
from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.records.inbox import JobEnded
from nightjar.coordinator.records.jobs import EvaluationDone
from nightjar.coordinator.tasks.operations import PromoteVersion, ResumeTask, RollBack, StopTask
from nightjar.coordinator.tasks.settings import PlanConfig, StrategyConfig
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.quality_gate import COMPARED_WITH, VersionMetrics
from nightjar.coordinator.versions.rollout import Stage
from nightjar.models.manifest import Manifest
from tests.coordinator.engine.rounds_of_versions import (
    BAD,
    announced,
    bases,
    begin_trial,
    check_in,
    hold_round,
    in_canary,
    killed_at_any_touch,
    operate,
    reason,
    report,
    stage,
    stages,
    status_of,
)


def measuring_world(make_world, **fields):
    """A world whose devices measured the first version with their keyboards, and made version 1 from it."""
    world = make_world(**fields)
    hold_round(world, "a", "b", gain=0.0)
    assert stages(world) == [Stage.CURRENT, Stage.TRAINING]
    return world


def test_rounds_train_from_a_new_version_that_keyboards_do_not_get(make_world):
    world = measuring_world(make_world)
    assert (announced(world).version, bases(world)) == (0, [0, 1])
    check_in(world, "a", "b")
    world.tick(61.0)
    asked = world.assignment("a")
    assert (asked.version, asked.plan.keystrokes) == (1, True)


def test_a_version_that_keyboards_find_better_is_announced_after_the_first_round_on_it(make_world):
    world = measuring_world(make_world)
    hold_round(world, "a", "b", gain=0.5)
    assert (stages(world), announced(world).version) == ([Stage.SUPERSEDED, Stage.CURRENT, Stage.TRAINING], 1)
    assert reason(world, 1) == (
        "2 devices save 30.5 % of their keystrokes with version 1, 0.5 points more than with version 0 "
        "(standard error 0.0)"
    )


def test_a_version_that_keyboards_find_a_little_worse_is_trained_from_and_never_announced(make_world):
    world = measuring_world(make_world)
    hold_round(world, "a", "b", gain=-0.3)
    assert (stages(world), announced(world).version) == ([Stage.CURRENT, Stage.SKIPPED, Stage.TRAINING], 0)
    assert reason(world, 1).startswith("by version 2, without having been announced: 2 devices save 29.7 %")
    assert (bases(world), world.tables.versions[2].lineage.parent) == ([0, 1, 2], 1)
    hold_round(world, "a", "b", gain=0.1)
    assert (stages(world)[2], announced(world).version) == (Stage.CURRENT, 2)


def test_a_version_that_keyboards_find_clearly_worse_is_rolled_back_and_rounds_go_on_from_the_announced_one(make_world):
    world = measuring_world(make_world)
    hold_round(world, "a", "b", gain=-2.0)
    assert (stages(world), announced(world).version) == ([Stage.CURRENT, Stage.ROLLED_BACK, Stage.REFUSED], 0)
    assert "2.0 points fewer than with version 0" in reason(world, 1)
    assert (world.counters["versions_refused"], world.counters.get("versions_rolled_back", 0)) == (2, 0)
    assert bases(world) == [0, 1, 0]
    hold_round(world, "a", "b", gain=0.0)
    assert (stages(world)[3], world.tables.versions[3].lineage.parent) == (Stage.TRAINING, 0)


def test_a_slow_decline_is_never_announced_and_ends(make_world):
    world = measuring_world(make_world)
    for rounds in range(1, 5):
        hold_round(world, "a", "b", gain=-0.2 * rounds)
    assert announced(world).version == 0
    assert stages(world) == [
        Stage.CURRENT,
        Stage.SKIPPED,
        Stage.SKIPPED,
        Stage.ROLLED_BACK,
        Stage.REFUSED,
        Stage.TRAINING,
    ]


def test_what_too_few_keyboards_measured_decides_nothing(make_world):
    world = measuring_world(make_world)
    check_in(world, "a", "b")
    world.tick(61.0)
    report(world, "a", gain=-9.0)
    report(world, "b")
    world.work()
    assert (stages(world), announced(world).version) == ([Stage.CURRENT, Stage.SKIPPED, Stage.TRAINING], 0)
    assert reason(world, 1).endswith("1 of 2 devices compared version 1 with version 0")


@pytest.mark.parametrize("over", [1, 7, 2**32 - 1])
def test_comparisons_with_a_version_that_there_is_not_or_with_itself_decide_nothing(make_world, over):
    world = measuring_world(make_world)
    check_in(world, "a", "b")
    world.tick(61.0)
    for device in ("a", "b"):
        report(world, device, gain=-10.0, over=over)
    world.work()
    assert (stage(world, 1), announced(world).version) == (Stage.SKIPPED, 0)
    assert set(world.tables.federated[1].gain_over) <= {1}


def test_where_keyboards_measure_no_more_the_text_decides_again_after_some_versions(make_world):
    """Somebody switched a keyboard off: its fleet must not train for ever for keyboards that get nothing."""
    world = measuring_world(make_world)
    for _ in range(COMPARED_WITH):
        assert announced(world).version == 0
        hold_round(world, "a", "b")
    assert (stages(world)[-1], announced(world).version) == (Stage.CURRENT, len(stages(world)) - 1)
    assert stages(world)[1:-1] == [Stage.SKIPPED] * (len(stages(world)) - 2)
    hold_round(world, "a", "b", gain=0.0)
    assert stages(world)[-1] is Stage.TRAINING, "they measure again"


def test_public_text_refuses_only_a_collapse_where_keyboards_measure(make_world):
    world = measuring_world(make_world)
    world.measured = VersionMetrics(0.06, 0.16, 3.5)
    hold_round(world, "a", "b", gain=0.5)
    assert stage(world, 2) is Stage.TRAINING
    world.measured = VersionMetrics(0.04, 0.1, 3.5)
    hold_round(world, "a", "b", gain=0.5)
    assert (stage(world, 2), stage(world, 3)) == (Stage.CURRENT, Stage.REFUSED)


def test_a_restart_goes_on_from_the_version_in_training(make_world):
    world = measuring_world(make_world)
    world.start()
    world.listen()
    hold_round(world, "a", "b", gain=-0.3)
    assert (bases(world), stages(world)) == ([0, 1, 2], [Stage.CURRENT, Stage.SKIPPED, Stage.TRAINING])


@pytest.mark.parametrize("seed", range(5))
def test_whatever_keyboards_measure_one_version_is_announced_and_none_that_was_measured_worse(make_world, seed):
    world, rng = measuring_world(make_world, patience=0), np.random.default_rng(seed)
    world.driver.handle(JobEnded(EvaluationDone(0, VersionMetrics(0.1, 0.2, 3.0))))
    gains = defaultdict(list)  # a version that the gate let nothing follow is measured in several rounds
    for _ in range(12):
        before, base = announced(world).version, bases(world)[-1]
        gain = 0.0 if base == before else float(rng.choice([-3.0, -0.3, 0.0, 0.4]))
        gains[base, before].append(gain)
        world.measured = VersionMetrics(float(rng.choice([0.1, 0.0])), 0.2, 3.0)
        hold_round(world, "a", "b", gain=gain)
        announced_now = announced(world).version
        assert announced_now == (base if sum(gains[base, before]) >= 0 else before)
        assert [number for number, each in enumerate(stages(world)) if each is Stage.CURRENT] == [announced_now]
        training = [number for number, each in enumerate(stages(world)) if each is Stage.TRAINING]
        assert [bases(world)[-1]] == (training or [announced_now])
    assert len(set(stages(world))) > 3, "the story has more to tell than that"


def test_a_task_that_gains_nothing_pauses_itself_and_says_why_with_both_figures(make_world):
    world = measuring_world(make_world, patience=3)
    for _ in range(3):
        hold_round(world, "a", "b", gain=-0.2)
    state = world.tables.tasks["keyboard"].state
    assert (state.status, state.who) == (TaskStatus.PAUSED, "gate")
    assert state.reason == (
        "no version was announced in the last 3 rounds: 2 devices save 29.8 % of their keystrokes with "
        "version 3, 0.2 points fewer than with version 0 (standard error 0.0)"
    )
    assert (announced(world).version, len(world.tables.rounds)) == (0, 4)
    assert operate(world, ResumeTask("keyboard")) is True
    assert world.tables.tasks["keyboard"].state.without_gain == 0
    hold_round(world, "a", "b", gain=0.2)
    assert (announced(world).version, status_of(world)) == (4, TaskStatus.ACTIVE)


def test_a_task_whose_versions_the_gate_refuses_pauses_itself_too(make_world):
    world = measuring_world(make_world, patience=2)
    world.driver.handle(JobEnded(EvaluationDone(0, VersionMetrics(0.1, 0.2, 3.0))))
    world.measured = VersionMetrics(0.0, 0.0, 9.0)
    for _ in range(2):
        hold_round(world, "a", "b", gain=-0.2)
    assert "4 devices save 29.8 % of their keystrokes with version 1," in world.tables.tasks["keyboard"].state.reason


def test_only_the_task_whose_versions_keyboards_have_measures_keystrokes(make_world):
    world = make_world(plan=PlanConfig(evaluation_share=0.0))
    check_in(world, "a", "b")
    world.tick(61.0)
    assert not world.assignment("a").plan.keystrokes


def test_the_states_of_the_optimizer_of_the_announced_version_and_of_the_one_in_training_are_kept(make_world):
    world = measuring_world(make_world, strategy=StrategyConfig(name=StrategyName.FEDAVGM))
    hold_round(world, "a", "b", gain=0.5)
    for _ in range(2):
        hold_round(world, "a", "b", gain=-0.1)
    kept = {number for number, record in world.tables.versions.items() if record.optimizer_state}
    assert (stages(world)[1], kept) == (Stage.CURRENT, {1, 4})
    hold_round(world, "a", "b", gain=-3.0)
    hold_round(world, "a", "b", gain=0.0)
    assert world.tables.versions[6].lineage.parent == 1


def test_a_device_that_trains_gets_the_difference_from_the_version_that_its_keyboard_has_however_old_it_is(make_world):
    world = measuring_world(make_world)
    for _ in range(VERSIONS_BACK + 2):
        hold_round(world, "a", "b", gain=-0.1)
    check_in(world, "a", "b")
    world.tick(61.0)
    for device in ("a", "b"):
        report(world, device, gain=-0.1)
    (job,) = world.worker.jobs
    manifests = {number: record.manifest for number, record in world.tables.versions.items()}
    newest = max(manifests)
    assert job.manifest == manifests[newest]
    assert job.bases == tuple(manifests[number] for number in (*range(newest - 1, newest - 1 - VERSIONS_BACK, -1), 0))


def base_of(world, version):
    """The weights that the newest transfer of a version starts from."""
    return _manifest(world, version).transfers[0].base


def _manifest(world, version):
    return Manifest.decode(world.artifacts.get(world.tables.versions[version].manifest))


def test_with_a_coarse_downlink_one_transfer_leads_from_the_announced_version_to_the_one_in_training(make_world):
    world = measuring_world(make_world, downlink="topk-8")
    for number in (2, 3, 4):
        hold_round(world, "a", "b", gain=-0.1)
        assert (announced(world).version, base_of(world, number)) == (0, _manifest(world, 0).weights.sha256)
    hold_round(world, "a", "b", gain=1.0)
    assert announced(world).version == 4, "by this round's measurements, which the transfer to version 5 foresees"
    assert base_of(world, 5) == _manifest(world, 4).weights.sha256
    assert _manifest(world, 5).transfers[1].target == _manifest(world, 4).weights.sha256, "for keyboards of version 0"


def test_an_operator_announces_the_version_in_training_or_takes_it_back(make_world):
    world = measuring_world(make_world)
    assert operate(world, RollBack(reason="no", version=1)) is True
    assert (stages(world), bases(world)[-1]) == ([Stage.CURRENT, Stage.ROLLED_BACK], 0)
    hold_round(world, "a", "b", gain=0.0)
    assert operate(world, PromoteVersion(2, "I like it")) is True
    assert (stages(world), announced(world).version) == ([Stage.SUPERSEDED, Stage.ROLLED_BACK, Stage.CURRENT], 2)
    assert operate(world, RollBack(reason="a slip")) is True
    assert announced(world).version == 0


def test_an_operator_can_still_choose_the_version_of_a_task_that_is_over(make_world):
    world = measuring_world(make_world)
    hold_round(world, "a", "b", gain=0.5)
    assert operate(world, StopTask("keyboard", "enough")) is True
    assert operate(world, PromoteVersion(0, "the first one")) is True
    assert (stages(world), announced(world).version) == ([Stage.CURRENT, Stage.SUPERSEDED, Stage.SKIPPED], 0)


def test_an_operator_who_goes_back_goes_to_a_version_that_was_announced(make_world):
    world = measuring_world(make_world)
    hold_round(world, "a", "b", gain=0.5)
    hold_round(world, "a", "b", gain=-0.1)
    assert stages(world) == [Stage.SUPERSEDED, Stage.CURRENT, Stage.SKIPPED, Stage.TRAINING]
    assert operate(world, RollBack(reason="words are missing")) is True
    assert stages(world) == [Stage.CURRENT, Stage.ROLLED_BACK, Stage.SKIPPED, Stage.SKIPPED]
    assert (announced(world).version, bases(world)[-1]) == (0, 0)


@pytest.mark.parametrize(("gain", "after"), [(0.5, Stage.CURRENT), (-0.3, Stage.TRAINING), (-3.0, Stage.ROLLED_BACK)])
def test_keyboards_decide_a_trial_whatever_the_recalls_are(make_world, gain, after):
    world = begin_trial(make_world)
    hold_round(world, *in_canary(world, 1, 2)[0], hits=BAD, gain=gain)
    assert stage(world, 1) is after
    told = announced(world)
    assert (told.version, told.canary) == (1 if after is Stage.CURRENT else 0, None)
    assert bases(world)[-1] == (0 if after is Stage.ROLLED_BACK else 1)


def test_where_nobody_measures_a_version_far_below_the_best_is_refused_however_slowly_it_came(make_world, tmp_path):
    world = make_world(evaluation_text=tmp_path / "held_out.tsv", patience=0)
    for number in range(12):
        world.measured = VersionMetrics(0.3 - 0.008 * number, 0.5, 3.0)
        hold_round(world, "a", "b")
    assert announced(world).version == 7
    assert "fell from 30.0 % to 24.4 %" in reason(world, 8)


def test_where_nobody_measures_a_task_without_a_best_version_pauses_itself(make_world):
    world = make_world(patience=2)
    world.measured = VersionMetrics(0.12, 0.2, 3.0)
    hold_round(world, "a", "b")
    world.measured = VersionMetrics(0.115, 0.2, 3.0)
    for _ in range(2):
        hold_round(world, "a", "b")
    state = world.tables.tasks["keyboard"].state
    assert (state.status, state.who) == (TaskStatus.PAUSED, "gate")
    assert state.reason == (
        "no version was the best on the held-out text in the last 2 rounds: 11.5 %, and the best had 12.0 %"
    )


def test_killed_at_any_touch_a_better_version_is_announced_once_and_rounds_go_on_from_the_next(make_world):
    stories = killed_at_any_touch(
        lambda: measuring_world(make_world),
        lambda world: hold_round(world, "a", "b", gain=0.5),
        lambda world: announced(world).version != 0,
    )
    for killed_at, world in stories:
        assert stages(world)[:3] == [Stage.SUPERSEDED, Stage.CURRENT, Stage.TRAINING], killed_at
        assert (announced(world).version, bases(world)[-1]) == (1, 2), killed_at
    assert killed_at > 30, "the story has more touches than that"
