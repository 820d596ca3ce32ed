"""Which devices get which release of the agent, and the verdict on a trial."""

import msgspec
import pytest
from msgspec.structs import replace

from nightjar.coordinator.tasks.operations import ChangeRelease, ReleaseAction
from nightjar.coordinator.versions import releases as pure
from nightjar.coordinator.versions.releases import DeviceGroup, Release, ReleaseHealth, judge, order_of
from nightjar.coordinator.versions.rollout import Rollout, Stage, TrialFailed, TrialPassed
from nightjar.coordinator.versions.trial_policy import TrialPolicy
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.releases import EVERYBODY, MOST_METADATA_BYTES, ReleaseOffer, offered_release
from nightjar.wire.shares import share_of

START, PAUSE, PROMOTE, ROLLBACK = ReleaseAction
OLD, NEW = Release(version="0.9.0", rollout=Rollout(stage=Stage.CURRENT)), Release(version="0.10.0")
POLICY = TrialPolicy(devices=10, hours=24.0)
HOUR_S = 3600.0
OTHERS = DeviceGroup(devices=200, silent=10, trained=160)
FEW = DeviceGroup(devices=40, silent=2, trained=32)
"""Of whom a trial has but two or three beside."""


def change(releases, version, action, reason="why", share=0.05, last_round=7, now_s=100.0, labelled=None):
    asked = ChangeRelease(version, action, reason, share)
    return pure.changed(releases, pure.find(releases, version), asked, labelled, last_round, now_s)


def started(share=0.05):
    return change((OLD, NEW), "0.10.0", START, share=share)


def stages(releases):
    return {each.version: each.rollout.stage.value for each in releases}


def test_a_started_release_goes_to_its_share_and_the_former_to_the_rest():
    releases = started()
    assert order_of(releases).offers == (ReleaseOffer("0.10.0", 50_000), ReleaseOffer("0.9.0", EVERYBODY))
    assert pure.canary_of(releases).since_round == 7


def test_a_trial_by_labels_is_offered_to_its_share_of_the_devices_that_have_them_and_to_no_other():
    devices = [DeviceId(f"d{number}") for number in range(100)]
    labelled = devices[:50]
    order = order_of(change((OLD, NEW), "0.10.0", START, share=0.5, labelled=labelled))
    taken = [device for device in devices if offered_release(order, device) == "0.10.0"]
    assert taken == [device for device in labelled if share_of("0.10.0", device) < 0.5]
    assert 10 < len(taken) < 40
    assert {offered_release(order, device) for device in devices} == {"0.10.0", "0.9.0"}


@pytest.mark.parametrize(("many", "share"), [(0, 1.0), (3, 0.0001), (pure.MOST_CHOSEN + 1, 1.0)])
def test_a_trial_by_labels_of_no_device_or_of_too_many_is_refused(many, share):
    labelled = [DeviceId(f"d{number}") for number in range(many)]
    assert f"of the {many} devices" in change((OLD, NEW), "0.10.0", START, share=share, labelled=labelled)


def test_the_longest_order_is_far_below_the_limit_of_metadata():
    labelled = [DeviceId(f"d{number}") for number in range(pure.MOST_CHOSEN)]
    order = order_of(change((OLD, NEW), "0.10.0", START, share=1.0, labelled=labelled))
    assert len(msgspec.json.encode(order)) < MOST_METADATA_BYTES / 10


def test_a_paused_release_is_offered_to_nobody_until_it_is_started_again():
    paused = change(started(), "0.10.0", PAUSE)
    assert order_of(paused).offers == (ReleaseOffer("0.9.0", EVERYBODY),)
    assert order_of(paused).withdrawn == {}
    again = change(paused, "0.10.0", START, share=0.2, last_round=9, now_s=200.0)
    assert order_of(again).offers[0] == ReleaseOffer("0.10.0", 200_000)
    assert pure.canary_of(again).rollout.since_s == 100.0


def test_a_promoted_release_takes_the_place_of_the_former():
    after = change(started(), "0.10.0", PROMOTE, "looks well", now_s=300.0)
    assert stages(after) == {"0.9.0": "superseded", "0.10.0": "current"}
    back = change(after, "0.10.0", ROLLBACK, "it drains batteries", now_s=400.0)
    assert stages(back) == {"0.9.0": "current", "0.10.0": "rolled-back"}
    assert order_of(back).withdrawn == {"0.10.0": "it drains batteries"}


def test_what_cannot_be_done_says_why():
    releases = started()
    third = Release(version="0.11.0")
    assert "0.10.0 is on trial" in change((*releases, third), "0.11.0", START)
    older = Release(version="0.8.0")
    assert "take no older one" in change((older, OLD), "0.8.0", START)
    gone = change(releases, "0.10.0", ROLLBACK)
    assert "take none twice" in change(gone, "0.10.0", START)
    for action in (PAUSE, PROMOTE, ROLLBACK):
        assert "is candidate" in change((NEW,), "0.10.0", action)


def test_more_bundles_of_a_release_join_those_that_it_has():
    one = pure.with_bundles((), replace(NEW, bundles={"a": "1"}))
    assert pure.with_bundles(one, replace(NEW, bundles={"b": "2"}, security=True)) == (
        replace(NEW, bundles={"a": "1", "b": "2"}, security=True),
    )


def verdict(tried, hours=1.0, others=OTHERS, release=None):
    release = release or pure.canary_of(started())
    return judge(POLICY, release, ReleaseHealth(tried=tried, others=others), 100.0 + hours * HOUR_S)


def test_enough_devices_that_trained_with_it_pass_it():
    assert isinstance(verdict(DeviceGroup(devices=12, trained=10)), TrialPassed)
    assert verdict(DeviceGroup(devices=12, trained=9)) is None


@pytest.mark.parametrize(("back", "silent"), [(2, 0), (1, 1), (0, 2)])
def test_a_release_that_fails_on_its_first_devices_is_taken_back_at_once(back, silent):
    event = verdict(DeviceGroup(devices=3, taken_back=back, silent=silent), others=FEW)
    assert isinstance(event, TrialFailed)
    assert "2 of 3 devices could not run it" in event.reason


def test_one_failure_alone_waits_for_the_end_of_the_trial():
    one = DeviceGroup(devices=1, taken_back=1)
    assert verdict(one, others=FEW) is None
    assert isinstance(verdict(one, hours=25.0, others=FEW), TrialFailed)


@pytest.mark.parametrize("hours", [1.0, 25.0])
def test_failures_are_counted_among_all_that_are_in_the_trial_not_among_those_that_were_quick(hours):
    others = DeviceGroup(devices=495, trained=400)
    assert verdict(DeviceGroup(devices=5, taken_back=5), hours, others) is None
    event = verdict(DeviceGroup(devices=6, taken_back=6), hours, others)
    assert isinstance(event, TrialFailed)
    assert "6 of 25 devices could not run it" in event.reason


def test_a_few_failures_among_many_are_chance():
    assert verdict(DeviceGroup(devices=100, taken_back=6, trained=9)) is None


def test_as_many_silent_devices_as_among_the_others_are_no_fault():
    quiet = DeviceGroup(devices=200, silent=100, trained=100)
    assert isinstance(verdict(DeviceGroup(devices=40, silent=20, trained=20), others=quiet), TrialPassed)


def test_after_the_time_of_a_trial_fewer_devices_suffice_if_they_train_like_the_others():
    assert isinstance(verdict(DeviceGroup(devices=4, trained=3), hours=25.0), TrialPassed)
    failed = verdict(DeviceGroup(devices=40, trained=4), hours=25.0)
    assert isinstance(failed, TrialFailed)
    assert "did not train" in failed.reason


def test_a_release_that_nobody_tried_or_that_is_paused_is_not_promoted():
    assert verdict(DeviceGroup(), hours=100.0) is None
    paused = replace(pure.canary_of(started()), paused=True)
    assert verdict(DeviceGroup(devices=50, trained=50), release=paused) is None
    assert isinstance(verdict(DeviceGroup(devices=50, taken_back=40), release=paused), TrialFailed)
