"""What every repository must do with versions, their figures and their releases."""

import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Tally, merged
from nightjar.coordinator.records.versions import Lineage, VersionRecord
from nightjar.coordinator.rounds.lease import Lease
from nightjar.coordinator.rounds.round import Phase, open_round
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.coordinator.versions.releases import DeviceGroup, Release
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.errors import IntegrityError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice
from tests.coordinator.storage.records import RULES, private_of


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


def test_the_version_that_rounds_train_from_is_told_apart_from_the_announced_one(started):
    with started.transaction() as tx:
        assert tx.training_version("") is None
        training = VersionRecord(version=1, manifest="5" * 64, rollout=Rollout(stage=Stage.TRAINING))
        tx.add_version(training)
    with started.transaction() as tx:
        assert (tx.training_version(""), tx.current_version().version) == (training, 0)
        assert tx.training_version("another") is None


def test_the_best_version_is_one_that_devices_had_and_was_measured_on_the_present_text(started):
    shares = {Stage.SUPERSEDED: 0.2, Stage.CURRENT: 0.1, Stage.REFUSED: 0.9, Stage.SKIPPED: 0.8, Stage.ROLLED_BACK: 0.7}
    with started.transaction() as tx:
        assert tx.best_version("", -1) is None
        for number, (stage, top1) in enumerate(shares.items(), 1):
            metrics, rollout = VersionMetrics(top1, 0.5, 3.0), Rollout(stage=stage)
            tx.add_version(VersionRecord(version=number, manifest="5" * 64, metrics=metrics, rollout=rollout))
    with started.transaction() as tx:
        assert [tx.best_version("", since).version for since in (-1, 1)] == [1, 2]
        assert tx.best_version("", 2) is None


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
    release = Release(version="0.2.0", rollout=on_trial, since_round=3, share=1.0)
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
