"""Releases of the agent in the running coordinator: operators' requests, and trials that end by themselves."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.engine.release_service import JUDGED_EVERY_S
from nightjar.coordinator.records.inbox import Operated, Ticked
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import IN_MEMORY
from nightjar.coordinator.tasks.operations import ChangeRelease, OperationRefused, ReleaseAction
from nightjar.coordinator.versions.releases import SILENT_S, DeviceGroup, Release, find, is_offered_to
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Status
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import write_model


@pytest.fixture
def world(tmp_path):
    database = Database(IN_MEMORY)
    database.on_touch = lambda: None
    world = World(write_model(tmp_path), tmp_path, lambda: database)
    with database.transaction() as tx:
        current = Rollout(stage=Stage.CURRENT, since_s=1.0)
        tx.save_releases((Release(version="0.1.0", rollout=current), Release(version="0.2.0")))
    yield world
    database.close()


def change(world, action, version="0.2.0", share=1.0, labels=None):
    answers = []
    world.driver.handle(Operated(ChangeRelease(version, action, "because", share, labels), "anna", answers.append))
    return answers[0]


def release(world, version="0.2.0"):
    with world.repository.transaction() as tx:
        return find(tx.releases(), version)


def tick(world, seconds=JUDGED_EVERY_S):
    world.driver.handle(Ticked())  # hears the broker again first
    world.clock.time_s += seconds
    world.driver.handle(Ticked())


def lease(world, name, **fields):
    with world.repository.transaction() as tx:
        tx.save_lease(Lease(device=DeviceId(name), last_seen_s=world.clock.now_s(), **fields))


def test_each_request_changes_the_release_and_the_audit_log(world):
    assert change(world, ReleaseAction.START) is True
    assert change(world, ReleaseAction.START) is False
    assert change(world, ReleaseAction.PAUSE) is True
    assert release(world).paused
    assert change(world, ReleaseAction.START) is True
    assert change(world, ReleaseAction.PROMOTE) is True
    assert release(world, "0.1.0").rollout.stage is Stage.SUPERSEDED
    assert change(world, ReleaseAction.ROLLBACK) is True
    assert release(world, "0.1.0").rollout.stage is Stage.CURRENT
    with world.repository.transaction() as tx:
        done = [(entry.action, entry.target, entry.who) for entry in tx.audit(10)]
    actions = ["rollback", "promote", "start", "pause", "start"]
    assert done == [(f"{action}-release", "0.2.0", "anna") for action in actions]


def test_labels_choose_the_devices_of_a_trial_until_others_are_given(world):
    lease(world, "both", labels="kitchen porch")
    lease(world, "one", labels="kitchen")
    lease(world, "other", labels="kitchenette porch")
    assert change(world, ReleaseAction.START, labels=("porch", "kitchen")) is True
    assert release(world).chosen == ("both",)
    change(world, ReleaseAction.PAUSE)
    lease(world, "later", labels="kitchen porch")
    change(world, ReleaseAction.START)
    assert release(world).chosen == ("both", "later")
    assert isinstance(change(world, ReleaseAction.START, labels=("cellar",)), OperationRefused)
    change(world, ReleaseAction.START, labels=())
    assert (release(world).labels, release(world).chosen) == ((), ())


def test_what_is_impossible_is_refused(world):
    assert isinstance(change(world, ReleaseAction.PROMOTE), OperationRefused)
    assert isinstance(change(world, ReleaseAction.START, "9.9.9"), OperationRefused)


def test_the_devices_of_a_trial_are_counted_by_what_they_run(world):
    change(world, ReleaseAction.START)
    lease(world, "well", agent_version="0.2.0", last_round=5, agent_round=3)
    lease(world, "idle", agent_version="0.2.0", last_round=3, agent_round=3)
    lease(world, "back", agent_version="0.1.0", taken_back="0.2.0: not up within 180 s")
    lease(world, "other", agent_version="0.1.0", last_round=5, taken_back="0.2.01: something else")
    with world.repository.transaction() as tx:
        now = tx.release_health(release(world), world.clock.now_s())
        later = tx.release_health(release(world), world.clock.now_s() + SILENT_S + 1)
    assert now.tried == DeviceGroup(devices=3, taken_back=1, trained=1)
    assert now.others == DeviceGroup(devices=1, trained=1)
    assert later.tried == DeviceGroup(devices=3, taken_back=1, silent=2, trained=1)
    assert later.others == DeviceGroup(devices=1, silent=1, trained=1)


def test_a_release_that_devices_went_back_from_is_taken_back_by_itself(world):
    change(world, ReleaseAction.START)
    for name in ("a", "b"):
        lease(world, name, agent_version="0.1.0", taken_back="0.2.0: the self-test failed")
    tick(world)
    assert release(world).rollout.stage is Stage.ROLLED_BACK
    assert "2 of 2 devices could not run it (taken back 2)" in release(world).rollout.reason
    assert release(world, "0.1.0").rollout.stage is Stage.CURRENT


def test_a_release_that_devices_train_with_is_promoted_by_itself(world):
    change(world, ReleaseAction.START)
    for number in range(world.config.rollout.devices):
        lease(world, f"d{number}", agent_version="0.2.0", last_round=2, agent_round=1)
    tick(world)
    assert release(world).rollout.stage is Stage.CURRENT


def test_a_device_has_trained_with_a_release_only_after_it_was_heard_of_with_it(world):
    world.check_in("a", agent_version="0.1.0")
    with world.repository.transaction() as tx:
        tx.save_lease(replace(tx.lease(DeviceId("a")), last_round=4))
    world.status("a", Status(online=True, agent_version="0.2.0"))
    world.check_in("a", agent_version="0.2.0")
    with world.repository.transaction() as tx:
        held = tx.lease(DeviceId("a"))
    assert (held.agent_version, held.agent_round) == ("0.2.0", 4)


def test_devices_that_are_not_in_the_trial_have_no_say_in_it(world):
    """They tell themselves what they run, and whether they went back from it."""
    change(world, ReleaseAction.START, share=0.05)
    names = [f"pi-{number:03}" for number in range(500)]
    outside = [name for name in names if not is_offered_to(release(world), DeviceId(name))]
    for name in outside[:100]:
        lease(world, name, agent_version="0.1.0", taken_back="0.2.0: the self-test failed")
    for name in outside[100:200]:
        lease(world, name, agent_version="0.2.0", last_round=5, agent_round=3)
    tick(world)
    assert release(world).rollout.stage is Stage.CANARY


@pytest.mark.parametrize("first", ["liars", "honest"])
@pytest.mark.parametrize("lie", ["taken back", "silent"])
def test_two_of_five_hundred_stop_no_release(world, first, lie):
    """Also if they make their names such that they are in its trial, and say that it failed before others try it."""
    change(world, ReleaseAction.START, share=0.05)
    names = [DeviceId(f"pi-{number:03}") for number in range(500)]
    inside = [name for name in names if is_offered_to(release(world), name)]
    for name in names:
        lease(world, name, agent_version="0.1.0")

    def liars():
        for name in inside[:2]:
            if lie == "silent":
                with world.repository.transaction() as tx:
                    tx.save_lease(Lease(device=name, agent_version="0.2.0", last_seen_s=world.clock.now_s() - SILENT_S))
            else:
                lease(world, name, agent_version="0.1.0", taken_back="0.2.0: the self-test failed")

    def honest():
        for name in inside[2:]:
            lease(world, name, agent_version="0.2.0", last_round=5, agent_round=3)

    for say in (liars, honest) if first == "liars" else (honest, liars):
        say()
        tick(world)
    assert release(world).rollout.stage is Stage.CURRENT
