"""A task with differential privacy: noise, separation, terms for devices, ledger."""

import numpy as np
import pytest
from msgspec.structs import replace

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.engine.task_creation import take_stock
from nightjar.coordinator.learning.privacy.adaptive_clipping import next_private_norm
from nightjar.coordinator.records.inbox import JobEnded, Operated
from nightjar.coordinator.records.jobs import JobFailed
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tasks.operations import RollBack
from nightjar.coordinator.tasks.settings import DpConfig, PlanConfig, Privacy
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError, LocalProtocolError
from nightjar.wire.messages import Assignment, PrivacyTerms, Rejection, RejectionReason
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model

PRIVATE = {
    "privacy": Privacy.DP,
    "rounds": 4,
    "minimum_separation": 2,
    "dp": DpConfig(epsilon=5.0, clip_norm=0.01),
    "plan": PlanConfig(evaluation_share=0.0),
}


@pytest.fixture
def world(tmp_path):
    return World(write_model(tmp_path), tmp_path, **PRIVATE)


def a_round(world, *devices):
    world.check_in(*devices)
    for device in devices:
        delta = np.full(LAYOUT.size, 0.01, np.float32)
        world.receive(device, "report", report_frame(world.assignment(device), delta, LAYOUT, 5))
    world.work()


def weights_of(world):
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.current_version().manifest))
    return weights_from_bytes(world.artifacts.get(manifest.weights.sha256), manifest.layout).astype(np.float64)


def task_of(world):
    with world.repository.transaction() as tx:
        return tx.task("keyboard")


def test_a_round_adds_the_noise_of_its_step_to_the_sum_of_clipped_updates(world):
    for step, cohort in enumerate((("a", "b"), ("c", "d"))):
        before, noise = weights_of(world), task_of(world).state.noise
        a_round(world, *cohort)
        drawn = noise.noise(step, LAYOUT.size) * noise.multiplier * 0.01
        clipped = 2 * 0.01 / np.sqrt(LAYOUT.size)  # each update has a norm above 0.01, so it is cut to that
        np.testing.assert_allclose(weights_of(world) - before, (clipped + drawn) / 2, rtol=1e-3, atol=1e-6)


def test_devices_are_told_the_terms_and_the_ledger_grows(world):
    assert task_of(world).ledger().spent == 0
    a_round(world, "a", "b")
    spent = task_of(world).ledger().spent
    world.check_in("c", "d")
    assert world.transport.to("a", Assignment)[-1].privacy == PrivacyTerms(
        epsilon=5.0, delta=1e-6, rounds=4, separation=2, step=0
    )
    assert world.transport.to("c", Assignment)[-1].privacy.step == 1
    assert 0 < spent < task_of(world).ledger().epsilon <= 5.0


def test_a_device_takes_part_at_most_once_in_as_many_noised_rounds_as_the_separation(world):
    a_round(world, "a", "b")
    world.check_in("a")
    rejection = world.transport.to("a", Rejection)[-1]
    assert rejection.reason is RejectionReason.TOOK_PART_LATELY
    assert rejection.detail == "differential privacy lets it take part again after one more round"
    a_round(world, "c", "d")
    world.check_in("a", "b")
    assert world.phase_of(3) is Phase.REPORTING


def test_a_round_that_was_abandoned_does_not_bring_a_device_back_sooner(world):
    a_round(world, "a", "b")
    for _ in range(3):
        world.tick(3600.0)
    world.check_in("a")
    assert world.transport.to("a", Rejection)[-1].reason is RejectionReason.TOOK_PART_LATELY


def test_a_round_whose_averaging_fails_has_spent_its_step(world):
    world.check_in("a", "b")
    for device in ("a", "b"):
        delta = np.full(LAYOUT.size, 0.01, np.float32)
        world.receive(device, "report", report_frame(world.assignment(device), delta, LAYOUT, 5))
    world.worker.jobs.clear()
    world.driver.handle(JobEnded(JobFailed("no room on the disk", 1)))
    assert world.phase_of(1) is Phase.ABANDONED
    assert task_of(world).state.noised == (1,)


def test_the_task_ends_with_its_budget(world):
    for cohort in (("a", "b"), ("c", "d"), ("a", "b"), ("c", "d")):
        a_round(world, *cohort)
    assert task_of(world).state.status is TaskStatus.FINISHED
    ledger = task_of(world).ledger()
    assert ledger.spent == ledger.epsilon
    assert len(task_of(world).state.noised) == 4


def test_the_key_of_the_noise_is_secret_and_survives_a_restart(world):
    key = task_of(world).state.noise.key
    assert len(key) == 64
    with world.repository.transaction() as tx:
        take_stock(tx, world.config, 0.0)
    assert task_of(world).state.noise.key == key


def test_the_promise_of_a_task_never_changes(world):
    weaker = world.config
    task = type(weaker.task)(**{**{n: getattr(weaker.task, n) for n in weaker.task.__struct_fields__}, "rounds": 5})
    changed = type(weaker)(**{**{n: getattr(weaker, n) for n in weaker.__struct_fields__}, "task": task})
    with world.repository.transaction() as tx, pytest.raises(ConfigError, match="never changes"):
        take_stock(tx, changed, 0.0)


def test_a_version_that_is_taken_back_has_spent_its_round_and_its_noise_serves_no_other(world):
    a_round(world, "a", "b")
    answers = []
    world.driver.handle(Operated(RollBack(reason="no", to=0), "anna", answers.append))
    assert answers == [True]
    assert task_of(world).state.noised == (1,)
    before, noise = weights_of(world), task_of(world).state.noise
    a_round(world, "c", "d")
    second = noise.noise(1, LAYOUT.size) * noise.multiplier * 0.01
    clipped = 2 * 0.01 / np.sqrt(LAYOUT.size)
    np.testing.assert_allclose(weights_of(world) - before, (clipped + second) / 2, rtol=1e-3, atol=1e-6)


def test_a_clip_norm_that_follows_the_updates_survives_a_restart_bit_for_bit(tmp_path):
    opened = []

    def open_database():
        opened.append(Database(f"sqlite:///{tmp_path / 'coordinator.sqlite'}"))
        return opened[-1]

    following = DpConfig(epsilon=5.0, clip_norm=0.01, clip_quantile=0.5)
    world = World(write_model(tmp_path), tmp_path, open_database, **PRIVATE | {"dp": following})
    try:
        world.check_in("a", "b")
        for device in ("a", "b"):
            delta = np.full(LAYOUT.size, 0.01, np.float32)
            world.receive(device, "report", report_frame(world.assignment(device), delta, LAYOUT, 5))
        (job,) = world.worker.jobs
        first = task_of(world).state.noise
        done = do_job(job, world.artifacts, world.private, lambda *_: world.measured)  # and then the process is killed
        world.start()
        world.work()
        with world.repository.transaction() as tx:
            version, terms = tx.current_version(), tx.task("keyboard").state.noise
        assert (version.clip_norm.hex(), version.version) == (done.clip_norm.hex(), 1)
        assert Manifest.decode(world.artifacts.get(version.manifest)).weights.sha256 == done.weights
        assert version.clip_norm == next_private_norm(first, 0, 0.01, 0, 2)
        before = weights_of(world)
        world.start()
        a_round(world, "c", "d")
        drawn = terms.noise(1, LAYOUT.size) * terms.multiplier
        clipped = 2 / np.sqrt(LAYOUT.size)
        expected = version.clip_norm * (clipped + drawn) / 2
        np.testing.assert_allclose(weights_of(world) - before, expected, rtol=1e-3, atol=1e-5)
    finally:
        for database in opened:
            database.close()


def test_what_a_spent_round_was_noised_with_cannot_be_derived_from_what_is_stored_later(world):
    secrets = []
    for cohort in (("a", "b"), ("c", "d"), ("a", "b")):
        secrets.append(task_of(world).state.noise)
        a_round(world, *cohort)
    kept = task_of(world).state.noise
    keys = len({each.key for each in (*secrets, kept)})
    first = secrets[0].noise(0, LAYOUT.size)
    stored = [kept.noise(step, LAYOUT.size) for step in range(4)]
    alike = [step for step, each in enumerate(stored) if abs(np.corrcoef(first, each)[0, 1]) > 0.5]
    assert (keys, alike) == (4, []), "the first round's noise could be taken off"


def test_a_database_of_a_backup_that_is_put_in_place_by_hand_draws_no_noise_anybody_knows(world):
    a_round(world, "a", "b")
    with world.repository.transaction() as tx:
        record = tx.task("keyboard")
        blank = replace(record.state, noise=record.state.noise.without_secrets())
        tx.save_task(replace(record, state=blank))
    world.check_in("c", "d")
    with world.repository.transaction() as tx:
        assert tx.open_rounds()
        take_stock(tx, world.config, 0.0)
        assert tx.open_rounds() == []
    ended = task_of(world).state
    assert ended.status is TaskStatus.FINISHED
    assert ended.reason.startswith("restored from a backup")
    with pytest.raises(LocalProtocolError, match="secrets of the noise"):
        ended.noise.noise(1, 2)
