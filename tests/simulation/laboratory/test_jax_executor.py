"""A cohort trained at once by JAX: each report is the device program's but for the last bits."""

import sys
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.tasks.settings import CodecConfig, PlanConfig, StrategyConfig
from nightjar.models.batches import pack
from nightjar.models.configurations import configuration
from nightjar.models.initial import initial_weights
from nightjar.simulation.laboratory.command import learn
from nightjar.simulation.laboratory.executor import InProcess
from nightjar.simulation.laboratory.experiment import PersonalSettings
from nightjar.simulation.laboratory.references import central
from nightjar.simulation.laboratory.training import prepare
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.lazily import Lazy
from tests.simulation.laboratory.test_training import CORPUS, EXPERIMENT, StoppedError, trained
from tests.skips import NO_GPU

tf, jax, reference = Lazy("tensorflow"), Lazy("jax"), Lazy("nightjar.benchmarks.reference_model")
jax_steps, jax_executor = (
    Lazy("nightjar.simulation.laboratory.jax_steps"),
    Lazy("nightjar.simulation.laboratory.jax_executor"),
)

pytestmark = [pytest.mark.tflite, pytest.mark.tensorflow, pytest.mark.slow]

TINY = configuration("tiny")
DENSE = msgspec.structs.replace(EXPERIMENT, codec=CodecConfig(name="dense-f32"))
PEOPLE = [7, 0, 3]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def jax_cohort(prepared):
    return jax_executor.JaxCohort(prepared.device_maker()(prepared.program), TINY, prepared.folder)


def assert_reports_are_those_of_the_device_program(on, programs, folder, **plan):
    prepared = prepare(DENSE, CORPUS, 1, folder, programs)
    theirs = prepared.device_maker()(prepared.program)
    theirs = replace(theirs, plan=msgspec.structs.replace(theirs.plan, **plan))
    weights = initial_weights(TINY, prepared.vocabulary.size, 1)
    with jax.default_device(jax.devices(on)[0]):
        found = jax_executor.JaxCohort(theirs, TINY, folder).train(PEOPLE, 2, weights, measured=True)
    expected = InProcess(theirs, folder).train(PEOPLE, 2, weights, measured=True)
    for mine, other in zip(found, expected, strict=True):
        assert (mine.person, mine.num_examples) == (other.person, other.num_examples)
        assert len(mine.payload) == len(other.payload)
        assert mine.loss == pytest.approx(other.loss, rel=1e-4)
        np.testing.assert_allclose(mine.update, other.update, atol=1e-5)
        assert np.abs(other.update).max() > 1e-3


def test_reports_are_those_of_the_device_program(programs, tmp_path):
    assert_reports_are_those_of_the_device_program("cpu", programs, tmp_path)


def test_so_they_are_with_every_term_of_a_plan_and_a_few_people_at_once(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(jax_executor, "AT_ONCE", 2)
    plan = {"momentum": 0.5, "proximal": 0.1, "local_epochs": 3, "max_steps": 5}
    assert_reports_are_those_of_the_device_program("cpu", programs, tmp_path, **plan)


@pytest.mark.gpu
def test_reports_of_a_gpu_are_those_of_the_device_program(programs, tmp_path):
    if not any(each.platform == "gpu" for each in jax.devices()):
        pytest.skip(f"JAX {NO_GPU}")
    assert_reports_are_those_of_the_device_program("gpu", programs, tmp_path)


@pytest.mark.parametrize("name", ["tiny", "tiny-lstm", "tiny-gru"])
def test_each_cell_has_the_gradient_of_the_reference(name):
    shape = configuration(name)
    weights, words = initial_weights(shape, 50, 1), np.random.default_rng(0).integers(4, 50, (6, 7))
    x, y = next(iter(pack(words.tolist(), 4, 5)))
    loss, slopes = reference.ReferenceModel(shape, 50, weights).gradient(tf.constant(x), tf.constant(y))
    rate = 1.0
    train = jax_steps.compiled(shape.layout(50), shape.cell)
    steps = train(weights, x[None, None], y[None, None], 1, jax_steps.Hyperparameters(rate, 1e9))
    assert float(steps.loss[0, 0]) == pytest.approx(float(loss), rel=1e-5)
    expected = shape.layout(50).flatten({name: slope.numpy() for name, slope in slopes.items()})
    np.testing.assert_allclose(steps.delta[0], -rate * expected, atol=1e-6)


def test_a_run_learns_and_goes_on_to_the_same_curve(programs, tmp_path):
    whole = trained(EXPERIMENT, tmp_path / "whole", programs, jax_cohort)
    assert whole[-1].loss < whole[0].loss

    def stop(number, _point):
        if number == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(EXPERIMENT, tmp_path / "cut", programs, jax_cohort, stop)
    assert trained(EXPERIMENT, tmp_path / "cut", programs, jax_cohort) == whole
    other = trained(EXPERIMENT, tmp_path / "device", programs)
    assert whole[-1].loss == pytest.approx(other[-1].loss, rel=1e-3)


def test_central_training_takes_the_same_steps(programs, tmp_path):
    prepared = prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs)
    trainer = jax_executor.JaxTrainer(prepared.layout, TINY)
    found, expected = (msgspec.structs.asdict(central(prepared, 2, each)) for each in (trainer, None))
    assert found == pytest.approx(expected, rel=1e-3)


def test_a_training_that_diverges_ends_the_run_with_the_person_and_the_round(programs, tmp_path):
    wild = msgspec.structs.replace(DENSE, plan=PlanConfig(learning_rate=1000.0, clip_norm=1e9, local_epochs=20))
    with pytest.raises(UnavailableError, match=r"person \d+ could not train in round 1: .*smaller learning rate"):
        trained(wild, tmp_path, programs, jax_cohort)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"strategy": StrategyConfig(name=StrategyName.FEDSGD.value)}, "one step along a full batch"),
        ({"personal": PersonalSettings(method="fedper")}, "fedper"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, what, programs, tmp_path):
    with pytest.raises(ConfigError, match=f"not by {what}; leave --jax out"):
        trained(msgspec.structs.replace(EXPERIMENT, **changes), tmp_path, programs, jax_cohort)


def test_the_command_trains_with_jax_and_says_what_it_needs(programs, tmp_path, monkeypatch):
    monkeypatch.setattr("nightjar.simulation.laboratory.command.PROGRAMS", programs)
    lines = [f"{user}\t{message}\n" for user, messages in CORPUS.users.items() for message in messages]
    (tmp_path / "corpus.tsv").write_text("user\ttext\n" + "".join(lines))
    (tmp_path / "small.toml").write_text("rounds = 2\n[cohort]\nsize = 5\n")
    command = [str(tmp_path / "small.toml"), "--corpus", str(tmp_path / "corpus.tsv"), "--json", "--jax"]
    done = CliRunner().invoke(learn, [*command, "--central", "1", "--out", str(tmp_path / "a")], catch_exceptions=False)
    outcome = msgspec.json.decode(done.stdout.splitlines()[-1])
    assert outcome["executor"] == "jax"
    assert outcome["central_top1"] > 0

    with pytest.raises(ConfigError, match="leave --workers and --ray out"):
        CliRunner().invoke(learn, [*command, "--workers", "2", "--out", str(tmp_path / "b")], catch_exceptions=False)
    monkeypatch.setitem(sys.modules, "nightjar.simulation.laboratory.jax_executor", None)
    with pytest.raises(ConfigError, match=r"pip install 'nightjar-federated\[jax\]'"):
        CliRunner().invoke(learn, [*command, "--out", str(tmp_path / "c")], catch_exceptions=False)
