"""Nobody is found by subtracting two means, or two sums, on the same weights; households go on."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from nightjar.coordinator.records.inbox import Operated
from nightjar.coordinator.rounds.round import AbandonCause, Phase
from nightjar.coordinator.tasks.operations import CreateTask, PauseTask, ResumeTask, RollBack
from nightjar.coordinator.tasks.settings import PlanConfig, SourceConfig, TaskSettings
from nightjar.models.manifest import Manifest
from nightjar.wire import frame
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Verdict, Work
from nightjar.wire.parameters import weights_from_bytes
from nightjar.wire.secure_sum.messages import Survivors
from tests.coordinator.engine.test_secure_sums import SummedWorld
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import World
from tests.coordinator.model_folder import LAYOUT, write_model
from tests.coordinator.several_tasks import create, operate, rounds_of
from tests.coordinator.test_task_evaluation import able, figures

HOUSEHOLD = Limits(household=True, density=1.0, steps=1)
OF_THREE = {"goal": 3, "minimum": 2}


def home(tmp_path, **task):
    settings = {"plan": PlanConfig(evaluation_share=0.0)} | task
    return World(write_model(tmp_path), tmp_path, limits=HOUSEHOLD, **settings)


def report(world, *devices):
    """A round of these devices, whose reports are averaged if they may be."""
    world.check_in(*devices)
    world.tick(61.0)
    for device in devices:
        delta = np.full(LAYOUT.size, (ord(device) - 96) / 1000, np.float32)  # below the clip norm
        world.receive(device, "report", report_frame(world.assignment(device), delta, LAYOUT, 5))
    world.tick(101.0)
    world.work()


def latest(world):
    """The last round that devices took part in."""
    with world.repository.transaction() as tx:
        found = [tx.round(number) for number in range(tx.last_round_number(), 0, -1)]
    return next(each for each in found if each is not None and each.seats)


def take_back(world):
    world.driver.handle(Operated(RollBack(reason="worse", to=0), "anna", lambda _answer: None))


def mean_of(world, version):
    with world.repository.transaction() as tx:
        manifest = Manifest.decode(world.artifacts.get(tx.version(version).manifest))
    weights = weights_from_bytes(world.artifacts.get(manifest.weights.sha256), LAYOUT)
    base = weights_from_bytes(world.artifacts.get(world.manifest.weights.sha256), LAYOUT)
    return weights.astype(np.float64) - base


def test_a_household_of_two_goes_on_through_ten_abandoned_rounds_and_ten_refused_versions(tmp_path):
    world, phases = home(tmp_path), []
    for _ in range(10):
        report(world, "a", "b")
        phases.append(latest(world).phase)
        take_back(world)
        world.check_in("a", "b")
        world.tick(101.0)
        phases.append(latest(world).phase)
    report(world, "a", "b")
    phases.append(latest(world).phase)
    assert phases == [*[Phase.COMMITTED, Phase.ABANDONED] * 10, Phase.COMMITTED]


def test_a_third_device_is_left_out_of_what_the_first_two_would_be_subtracted_from(tmp_path):
    world = home(tmp_path, **OF_THREE)
    report(world, "a", "b")
    take_back(world)
    report(world, "a", "b", "c")
    with world.repository.transaction() as tx:
        first, last = (each.version for each in tx.versions(9) if each.round is not None)
    alone = 3 * mean_of(world, last) - 2 * mean_of(world, first)
    second = latest(world)
    assert (second.phase, second.reported) == (Phase.COMMITTED, 3)
    assert alone[0] != pytest.approx(0.003, rel=0.02), "that is the update of c"


def test_two_tasks_on_one_version_whose_cohorts_differ_by_one_device_do_not_give_it_away(tmp_path):
    world = home(tmp_path, rounds=1)
    report(world, "a", "b")
    settings = TaskSettings(
        name="second",
        goal=3,
        minimum=3,
        over_selection=1.0,
        codec=world.config.task.codec,
        source=SourceConfig(version=0),
        plan=PlanConfig(evaluation_share=0.0),
    )
    answers = []
    world.driver.handle(Operated(CreateTask(settings), "mallory", answers.append))
    world.check_in("a", "b", "c")
    world.tick(3601.0)
    report(world, "a", "b", "c")
    ended = latest(world)
    told = "its 3 devices differ by 1 from 2 whose reports on the same weights were used before" in ended.reason
    refused = (ended.task, ended.cause, told) == ("second", AbandonCause.AVERAGING_FAILED, True)
    assert refused, "this mean, less the other, would be the update of c"


def sum_of(world, *silent):
    for name, device in world.devices.items():
        device.read = len([each for each in world.transport.to(name) if hasattr(each, "session")])
    world.check_in(*world.devices)
    for name, device in world.devices.items():
        device.silent, device.report = name in silent, None
        if name not in silent:
            device.join()
    for seconds in (31.0, 31.0, 31.0, 401.0, 31.0, 31.0):
        world.talk()
        world.tick(seconds)
    world.work()


def test_a_sum_of_one_device_fewer_on_the_same_weights_is_not_opened(tmp_path):
    world = SummedWorld(tmp_path, limits=Limits(household=True, density=1.0))
    sum_of(world)
    assert latest(world).phase is Phase.COMMITTED
    take_back(world)
    before = len(world.transport.sent)
    sum_of(world, "d4")
    asked = [message for _, message, _ in world.transport.sent[before:] if isinstance(message, Survivors)]
    ended = latest(world)
    told = "its 4 devices differ by 1 from 5" in ended.reason
    assert (ended.phase, asked, told) == (Phase.ABANDONED, [], True), "nobody is asked to open it"


def test_a_sum_that_was_never_opened_does_not_count(tmp_path):
    world = SummedWorld(tmp_path, limits=Limits(household=True, density=1.0))
    world.begin()
    while world.phase_of(1) is Phase.REPORTING:
        world.talk_once()
    for device in world.devices.values():
        device.silent = True
    world.tick(31.0)
    assert world.phase_of(1) is Phase.ABANDONED
    sum_of(world, "d4")
    assert latest(world).phase is Phase.COMMITTED


def evaluated(tmp_path, *cohorts):
    """A world in which version 0 was evaluated by these cohorts, each in a task of its own."""
    world = home(tmp_path)
    operate(world, PauseTask("keyboard", "only evaluations matter here"))
    for number, cohort in enumerate(cohorts):
        fields = {"kind": Work.EVALUATE, "rounds": 1, "source": SourceConfig(version=0), "plan": PlanConfig()}
        size = {"goal": len(cohort), "minimum": 2, "over_selection": 1.0}
        assert create(world, f"look-{number}", **fields, **size) is True
        able(world, *cohort)
        for device in cohort:
            assert figures(world, device, RECALLED[device]) is Verdict.ACCEPTED
        world.work()
        world.tick(3601.0)
    return world


RECALLED = {"a": 1, "b": 2, "c": 5}
"""Words of ten that a device predicts right."""


def recalls_of(world):
    """Of all versions: those on the same weights would be subtracted from each other."""
    with world.repository.transaction() as tx:
        found = [Counter(tx.federated(each.version).top1_before_of) for each in tx.versions(9)]
    return dict(sum(found, Counter()))


def test_two_evaluations_whose_devices_differ_by_one_do_not_give_its_figures_away(tmp_path):
    world = evaluated(tmp_path, "ab", "abc")
    (second,) = rounds_of(world, "look-1")[:1]
    assert (second.phase, second.reported) == (Phase.COMMITTED, 3)
    assert recalls_of(world) == {100: 2, 200: 2}, "less those of a and b, these would be the figures of c"


def test_an_evaluation_of_fewer_devices_than_before_is_not_read(tmp_path):
    world = evaluated(tmp_path, "abc", "ab")
    ended = rounds_of(world, "look-1")[0]
    told = "its 2 devices differ by 1 from 3 whose reports on the same weights were used before" in ended.reason
    found = (recalls_of(world), ended.phase, told)
    assert found == ({100: 1, 200: 1, 500: 1}, Phase.ABANDONED, True), "all, less these, would be the figures of c"


def test_the_same_devices_and_wholly_others_are_evaluated_again(tmp_path):
    assert recalls_of(evaluated(tmp_path, "ab", "ab")) == {100: 2, 200: 2}


def test_training_goes_on_where_only_what_its_devices_measured_must_stay_unread(tmp_path):
    world = evaluated(tmp_path, "ab")
    operate(world, ResumeTask("keyboard"))
    settings = {"goal": 3, "minimum": 2, "over_selection": 1.0, "source": SourceConfig(version=0)}
    assert create(world, "second", **settings, plan=PlanConfig()) is True
    operate(world, PauseTask("keyboard", "only the other matters here"))
    world.check_in("a", "b", "c")
    world.tick(61.0)
    for device in "abc":
        counts = frame.LocalEvaluation(10, RECALLED[device], 8, RECALLED[device], 8, 2.0, 2.0)
        sent = report_frame(world.assignment(device), np.full(LAYOUT.size, 0.01, np.float32), LAYOUT, 5)
        world.receive(device, "report", frame.encode_report(replace(frame.decode(sent), evaluation=counts)))
    world.work()
    ended = rounds_of(world, "second")[0]
    assert (ended.phase, ended.version is not None) == (Phase.COMMITTED, True)
    assert recalls_of(world) == {100: 1, 200: 1}, "less those of a and b, these would be the figures of c"
