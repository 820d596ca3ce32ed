"""What becomes of versions, told by the driver among fakes: the gate, trials, what keyboards measure, operators."""

import hashlib
from collections import defaultdict

import msgspec
import numpy as np
import pytest

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.inbox import JobEnded, Operated
from nightjar.coordinator.engine.jobs import EvaluationDone
from nightjar.coordinator.learning.downlink import VERSIONS_BACK
from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.tasks.operations import OperationRefused, PromoteVersion, ResumeTask, RollBack, StopTask
from nightjar.coordinator.tasks.settings import PlanConfig, StrategyConfig
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.coordinator.versions.quality_gate import COMPARED_WITH, VersionMetrics
from nightjar.coordinator.versions.rollout import Stage, TrialPolicy
from nightjar.models.manifest import Manifest
from nightjar.wire import frame as frames
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.messages import Announcement, Assignment, CheckIn, Dropout, DropoutCause, Rejection, Work
from nightjar.wire.shares import is_canary
from tests.coordinator.engine.reporting import delta
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import Killed, World
from tests.coordinator.model_folder import LAYOUT, write_model

GOOD, BAD = 20, 2
"""Of 100 held-out words, foreseen."""
TRIAL = TrialPolicy(share=0.5, devices=2, hours=1.0)


@pytest.fixture
def make_world(tmp_path):
    manifest = write_model(tmp_path)
    return lambda **fields: World(manifest, tmp_path, **{"evaluation_text": tmp_path / "manifest.json", **fields})


def stage(world, version):
    return world.tables.versions[version].rollout.stage


def reason(world, version):
    return world.tables.versions[version].rollout.reason


def announced(world):
    return [message for _, message, _ in world.transport.sent if isinstance(message, Announcement)][-1]


def found(hits):
    return LocalEvaluation(100, hits, 2 * hits, hits, 2 * hits, 5.0, 4.5)


def report(world, device, value=0.01, hits=GOOD, gain=None, over=None):
    """What was asked for: an update with figures beside it, or figures alone.

    With a ``gain``, the device has a keyboard with the announced version, or as it says version ``over``, which saves
    30 % of the keystrokes; the version of the round saves so many points more.
    """
    asked = world.assignment(device)
    written = frames.decode(report_frame(asked, delta(value), LAYOUT, evaluation=found(hits)))
    if gain is not None and asked.plan.keystrokes:
        compared = announced(world).version if over is None else over
        keyboard = KeyboardEvaluation(1000, 300 + round(10 * gain), compared, 300)
        written = msgspec.structs.replace(written, keyboard=keyboard)
    if asked.work is Work.EVALUATE:
        written = msgspec.structs.replace(written, codec=frames.NO_UPDATE, payload=b"")
    world.receive(device, "report", frames.encode_report(written))


def check_in(world, *devices):
    for device in devices:
        offer = CheckIn(
            agent_version="0.1.0", runtime="none", examples=10, kinds=("train", "evaluate"), codecs=to_name()
        )
        world.say(device, offer)


def hold_round(world, *devices, hits=GOOD, gain=None):
    """The devices check in, are selected, and report."""
    check_in(world, *devices)
    world.tick(61.0)
    for device in devices:
        report(world, device, hits=hits, gain=gain)
    world.work()


def in_canary(world, version, count):
    """Names of devices that try a version."""
    manifest = world.tables.versions[version].manifest
    names = [f"phone-{i}" for i in range(200)]
    return [n for n in names if is_canary(n, manifest, TRIAL.share)][:count], [
        n for n in names if not is_canary(n, manifest, TRIAL.share)
    ][:count]


def operate(world, operation):
    answers = []
    world.driver.handle(Operated(operation, "ann", answers.append))
    return answers[0]


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


# Where keyboards measure


def stages(world):
    return [world.tables.versions[number].rollout.stage for number in sorted(world.tables.versions)]


def bases(world):
    return [world.tables.rounds[number].base_version for number in sorted(world.tables.rounds)]


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


# With a share


def begin_trial(make_world):
    world = make_world(rollout=TRIAL)
    hold_round(world, "a", "b")
    assert (stage(world, 0), stage(world, 1)) == (Stage.CURRENT, Stage.CANARY)
    return world


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


def status_of(world):
    return world.tables.tasks["keyboard"].state.status


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


def test_killed_at_any_touch_a_better_version_is_announced_once_and_rounds_go_on_from_the_next(make_world):
    touches = 0
    for killed_at in range(0, 400, 7):
        world = measuring_world(make_world)
        left = [killed_at]

        def touch(left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        world.touch_with(touch)
        try:
            hold_round(world, "a", "b", gain=0.5)
            touches = killed_at
        except Killed:
            world.touch_with(lambda: None)
            world.start()
            world.listen()
            for _ in range(4):
                if announced(world).version == 0:
                    hold_round(world, "a", "b", gain=0.5)
        world.touch_with(lambda: None)
        assert stages(world)[:3] == [Stage.SUPERSEDED, Stage.CURRENT, Stage.TRAINING], killed_at
        assert (announced(world).version, bases(world)[-1]) == (1, 2), killed_at
        if touches:
            break
    assert touches > 30, "the story has more touches than that"


def test_killed_at_any_touch_a_bad_canary_is_rolled_back_once_and_everybody_is_told(make_world):
    touches = 0
    for killed_at in range(0, 400, 7):
        world = begin_trial(make_world)
        among, _ = in_canary(world, 1, 2)
        left = [killed_at]

        def touch(left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        world.touch_with(touch)
        try:
            hold_round(world, *among, hits=BAD)
            touches = killed_at
        except Killed:
            world.touch_with(lambda: None)
            world.start()
            world.listen()
            for _ in range(4):
                if stage(world, 1) is Stage.CANARY:
                    hold_round(world, *among, hits=BAD)
        world.touch_with(lambda: None)
        assert (stage(world, 0), stage(world, 1)) == (Stage.CURRENT, Stage.ROLLED_BACK), killed_at
        assert world.counters["versions_rolled_back"] == 1
        assert (announced(world).version, announced(world).canary) == (0, None)
        if touches:
            break
    assert touches > 30, "the story has more touches than that"
