import itertools

import pytest

from nightjar.coordinator.learning.device_metrics import Tally, merged
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.rollout import (
    TABLE,
    GateFailed,
    GatePassed,
    Overtaken,
    Promoted,
    Rollout,
    Stage,
    TrialFailed,
    TrialPassed,
    TrialUndecided,
    Withdrawn,
    cannot_roll_back,
    judge,
    judge_new,
    step,
)
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.wire.errors import IllegalEvent

NOW = 5.0
EVENTS = [
    GatePassed(0.0, NOW),
    GatePassed(0.2, NOW),
    GatePassed(0.0, NOW, measured=True),
    GateFailed("why", NOW),
    TrialPassed("why", NOW),
    TrialUndecided("why", NOW),
    TrialFailed("why", NOW),
    Overtaken(7, NOW),
    Promoted("why", NOW),
    Withdrawn("why", NOW),
]


@pytest.mark.parametrize(("stage", "event"), list(itertools.product(Stage, EVENTS)), ids=str)
def test_every_pair_is_legal_or_changes_nothing(stage, event):
    state = Rollout(stage=stage, reason="before", since_s=1.0)
    row = TABLE.get((stage, type(event)))
    if row is None:
        with pytest.raises(IllegalEvent, match="cannot happen here"):
            step(state, event)
        return
    after = step(state, event)
    assert after.stage in row.leads_to
    assert after.since_s == NOW
    assert after.reason


def test_without_a_share_a_version_goes_to_all_at_once():
    assert step(Rollout(), GatePassed(0.0, NOW)).stage is Stage.CURRENT
    assert step(Rollout(), GatePassed(0.05, NOW)).stage is Stage.CANARY


def test_where_devices_measure_rounds_train_from_a_version_before_keyboards_get_it():
    training = step(Rollout(), GatePassed(0.0, NOW, measured=True))
    assert training.stage is Stage.TRAINING
    assert step(training, TrialPassed("better", NOW)).stage is Stage.CURRENT
    assert step(training, TrialFailed("worse", NOW)).stage is Stage.ROLLED_BACK
    undecided = step(training, TrialUndecided("perhaps worse", NOW))
    assert (undecided.stage, "perhaps worse" in undecided.reason) == (Stage.TRAINING, True)
    skipped = step(undecided, Overtaken(8, NOW, "perhaps worse"))
    assert (skipped.stage, skipped.reason) == (
        Stage.SKIPPED,
        "by version 8, without having been announced: perhaps worse",
    )


def test_whatever_became_of_a_version_an_operator_can_take_it_back_out():
    for stage in set(Stage) - {Stage.CANDIDATE, Stage.CURRENT}:
        assert step(Rollout(stage=stage), Promoted("it was fine", NOW)).stage is Stage.CURRENT


POLICY = TrialPolicy(share=0.2, devices=4, hours=24.0)
DAY = 86400.0


def found(recalls=(), tried=None, **failures):
    histogram = {}
    for recall in recalls:
        histogram[recall] = histogram.get(recall, 0) + 1
    tried = len(recalls) + sum(failures.values()) if tried is None else tried
    causes = {name.replace("_", "-"): count for name, count in failures.items()}
    return Tally(
        devices=len(recalls),
        counted=100 * len(recalls),
        top1_before_of=histogram,
        top3_before_of=histogram,
        tried=tried,
        failures=causes,
    )


FORMER = found((180, 200, 220, 190, 210, 200))


def verdict(tried, former=FORMER, waited_s=60.0):
    return judge(POLICY, tried, [former], 1000.0, 1000.0 + waited_s)


def test_it_waits_until_enough_devices_have_spoken():
    assert verdict(found((10, 10, 10))) is None


def test_devices_that_foresee_less_roll_it_back_and_the_reason_has_the_figures():
    event = verdict(found((20, 30, 10, 20)))
    assert isinstance(event, TrialFailed)
    recalls = "top-1 on 4 devices that tried it is 2.0 %, with a version before it 20.0 % on 6"
    assert event.reason == recalls


def test_devices_that_foresee_as_much_let_it_through():
    assert verdict(found((190, 200, 205, 190))) == TrialPassed("4 devices tried it and are none the worse", 1060.0)


def test_a_difference_within_the_margin_or_within_chance_is_none():
    assert isinstance(verdict(found((191, 191, 192, 192))), TrialPassed)  # 0.9 points
    assert isinstance(verdict(found((20, 300, 50, 290))), TrialPassed)  # 3.5 points, of devices that differ by 25


def test_canaries_cannot_get_worse_for_ever_in_steps_that_are_small_enough():
    latest = [found((190, 190, 191, 189)), FORMER, found((215, 210, 220, 215, 214))]
    event = judge(POLICY, found((182, 181, 183, 182)), latest, 1000.0, 1060.0)
    assert isinstance(event, TrialFailed)
    assert "with a version before it 21.5 % on 5" in event.reason


def test_devices_that_cannot_run_it_roll_it_back():
    event = verdict(found((), fetch_failed=2, training_failed=2))
    assert isinstance(event, TrialFailed)
    assert "4 of 4 devices could not run it (fetch-failed 2, training-failed 2)" in event.reason


def test_as_many_failures_as_before_are_none_of_its_faults():
    before = found((200,) * 10, tried=20, training_failed=10)
    assert isinstance(verdict(found((200, 200), training_failed=2), before), TrialPassed)


def test_after_the_longest_time_few_devices_must_do():
    assert verdict(found(()), waited_s=DAY) == TrialPassed(
        "only 0 of 4 devices tried it in 24 h, and none is the worse", 1000.0 + DAY
    )
    assert isinstance(verdict(found((10, 20)), waited_s=DAY), TrialFailed)


def test_with_nothing_to_compare_with_only_failures_count():
    assert isinstance(verdict(found((10, 10, 10, 10)), Tally()), TrialPassed)


@pytest.mark.parametrize(
    ("points", "event"),
    [((0.5, 1.5), TrialPassed), ((-0.2, 0.1), TrialUndecided), ((-2.0, -2.2), TrialFailed), ((-9.0,), TrialPassed)],
)
def test_the_keyboards_of_a_trial_decide_where_two_have_measured_and_else_the_recalls(points, event):
    keyboards = Tally(
        saved={3000: len(points)}, gain_over={4: {round(100 * each): points.count(each) for each in points}}
    )
    tried = merged(found((190, 200, 205, 190)), keyboards)
    assert type(judge(POLICY, tried, [FORMER], 1000.0, 1060.0, announced=4)) is event


@pytest.mark.parametrize(("saved", "event"), [((20.0, 21.0), TrialFailed), ((29.0, 30.0), TrialPassed)])
def test_a_canary_whose_keyboards_save_clearly_less_than_those_with_the_current_version_fails(saved, event):
    """Each keyboard of a trial has the canary itself, and compares it with nothing else."""
    compared = Tally(saved={round(100 * each): saved.count(each) for each in saved}, gain_over={5: {0: len(saved)}})
    tried = merged(found((190, 200, 205, 190)), compared)
    current = merged(FORMER, Tally(saved={3000: 1, 3100: 1, 2900: 1}))
    assert type(judge(POLICY, tried, [current], 1000.0, 1060.0, version=5, announced=4)) is event


def gate(top1, *, base=4, devices=0, own_text=True):
    policy = TrialPolicy(share=0.1, devices=4)
    line = [VersionMetrics(0.2, 0.4, 4.0), VersionMetrics(0.21, 0.4, 4.0)]
    return judge_new(
        policy,
        VersionMetrics(top1, 0.4, 4.0),
        line,
        base=base,
        head=4,
        devices=devices,
        own_text=own_text,
        now_s=NOW,
    )


def test_a_new_version_goes_to_a_share_unless_the_text_or_what_it_was_trained_from_forbids_it():
    assert gate(0.205) == GatePassed(0.1, NOW)
    assert gate(0.199).reason.startswith("top-1 on the held-out examples fell from 21.0 % to 19.9 %")
    assert gate(0.205, base=3).reason == "it was trained from version 3, and rounds go on from version 4"


def test_where_enough_devices_measure_or_the_text_is_foreign_it_refuses_only_a_collapse():
    assert isinstance(gate(0.17, devices=4), GatePassed)
    assert isinstance(gate(0.17, own_text=False), GatePassed)
    assert isinstance(gate(0.15, devices=4), GateFailed)


@pytest.mark.parametrize("stage", Stage)
def test_an_operator_can_roll_back_what_devices_have_if_something_is_left(stage):
    assert bool(cannot_roll_back(3, stage, named=False, replaceable=True)) == (
        stage not in {Stage.CANARY, Stage.TRAINING, Stage.CURRENT}
    )
    assert bool(cannot_roll_back(3, stage, named=True, replaceable=False))
