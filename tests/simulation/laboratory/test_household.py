"""A household of invented people, from the first model to the version that keyboards have at the end."""

import json

import msgspec
import pytest

from nightjar.models import corpora
from nightjar.simulation.laboratory.executor import InProcess
from nightjar.simulation.laboratory.experiment import Experiment, read_experiment
from nightjar.simulation.laboratory.keyboards import own_keyboards, versions_of
from nightjar.simulation.laboratory.training import prepare, run
from tests.lazily import NEEDS_TENSORFLOW
from tests.simulation.laboratory.test_experiment import HOUSEHOLD

pytestmark = [*NEEDS_TENSORFLOW, pytest.mark.tflite, pytest.mark.slow]
SETTINGS = ["corpus=personas", "split.most_active=3", "split.held_out_people=0.2", "cohort.size=3", "gate.patience=2"]


def outcome(folder, experiment: Experiment):
    corpus = corpora.load(experiment.corpus, 1, people=40, messages=40)
    prepared = prepare(experiment, corpus, 1, folder / "run", folder / "programs")
    keyboards = own_keyboards(prepared)
    device = prepared.device_maker()(prepared.program)
    curve = run(prepared, InProcess(device, prepared.folder), compare=keyboards.compared)
    return curve, versions_of(keyboards)


def test_keyboards_get_what_devices_measured_as_no_worse_and_a_useless_run_is_paused(tmp_path):
    experiment = read_experiment(HOUSEHOLD, [*SETTINGS, "rounds=6", "evaluation.every=3"])
    curve, found = outcome(tmp_path, experiment)
    saved = [found.own[version].mean for version in found.announced]
    assert found.announced[0] == 0
    assert saved == sorted(saved)
    assert set(found.later) == {0, found.announced[-1]}
    assert [point.round for point in curve] == [0, 3, 6], "a run that is paused keeps what it has"
    assert json.loads(msgspec.json.encode(found))["own"]["0"]["people"] == 3
    harmful = [*SETTINGS, "rounds=6", "evaluation.every=3", "plan.learning_rate=50", "plan.clip_norm=1000"]
    curve, found = outcome(tmp_path / "harmful", read_experiment(HOUSEHOLD, harmful))
    assert found.announced == [0]
    assert found.paused.startswith("no version was announced in the last 2 rounds: 3 devices save ")
    assert curve[-1].top1 == curve[0].top1
