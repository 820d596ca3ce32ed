"""A device that classifies: from a folder of rows to a report, and what it does with what it cannot use."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import structlog

from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.ports import SessionDependencies
from nightjar.edge_agent.session.session import in_this_process, prepare, run_session
from nightjar.edge_agent.session.task import Produced
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.examples import DeviceExamples
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.edge_agent.shell.trainer import TrainerProcess
from nightjar.wire import frame
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from nightjar.wire.limits import NONE
from nightjar.wire.messages import CodecChoice, DropoutCause, TrainingPlan
from tests.edge_agent.fakes import assignment

pytestmark = [pytest.mark.tensorflow, pytest.mark.tflite, pytest.mark.slow]


def write_rows(folder, count=400):
    generator = np.random.default_rng(5)
    y = generator.integers(0, 3, count)
    x = generator.normal(0, 3, (3, 4))[y] + generator.normal(0, 0.5, (count, 4))
    np.savez(folder / "rows.npz", x=x, y=np.array(["red", "green", "blue"])[y])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from nightjar.models.classifiers import export_classifier

    folder = tmp_path_factory.mktemp("classifier")
    write_rows(folder)
    export_classifier("logistic", folder / "rows.npz", folder / "model", seed=7)
    return exported_model(folder / "model")


def run(model, folder, train, personalise=False):
    desk = SessionDependencies(DeviceExamples(None, folder), train, personalise)
    plan = TrainingPlan(learning_rate=0.1, clip_norm=1.0, evaluation_share=0.3, momentum=0.5)
    asked = assignment(model, 5, plan=plan, codec=CodecChoice(name="dense-f32"))
    return run_session(desk, asked, model, np.random.default_rng(1), lambda: False)


def in_process(task, should_stop):
    return in_this_process(load_program, SystemClock().monotonic_s)(task, should_stop)


def test_rows_become_a_report_with_the_accuracy_before_and_after_in_both_trainers(model, tmp_path):
    write_rows(tmp_path)
    made, in_child = (run(model, tmp_path, train) for train in (in_process, TrainerProcess(384 << 20)))
    assert isinstance(made, Produced)
    report = frame.decode(made.report.frame)
    assert report.num_examples + report.evaluation.counted == 400
    assert report.evaluation.top1_after > report.evaluation.top1_before
    assert report.evaluation.top3_after == report.evaluation.counted
    assert report.payload == frame.decode(in_child.report.frame).payload


def test_a_device_keeps_weights_of_its_own_where_they_classify_its_held_out_rows_better(model, tmp_path):
    write_rows(tmp_path)
    model.personal_weights.unlink(missing_ok=True)
    assert run(model, tmp_path, in_process, personalise=True).personal_share > 0
    assert model.personal_weights.stat().st_size == 2 * model.manifest.layout.size


def test_a_class_that_the_model_does_not_know_is_a_counted_dropout_whose_words_stay_on_the_device(model, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,c,d,label\n1,2,3,4,secret\n")
    with structlog.testing.capture_logs() as logs:
        stopped = run(model, tmp_path, in_process)
    assert isinstance(stopped, TrainingStopped)
    assert (stopped.cause, stopped.detail) == (DropoutCause.BAD_EXAMPLES, "unknown-class")
    assert "'secret' is none of the model's classes" in logs[-1]["why"]


class Trusting:
    def __init__(self):
        self.refusals = []

    def check(self, kind, payload):
        pass

    def refused(self, why):
        self.refusals.append(why)


def prepared(model, **changes):
    given = dataclasses.replace(model, **changes)
    artifacts, trust = SimpleNamespace(fetch=lambda _manifest, _stop: given), Trusting()
    return trust, lambda limit: prepare(
        artifacts, trust, NONE, assignment(given, 5), b"", lambda: False, memory_bytes=limit
    )


def test_a_program_that_needs_more_memory_than_the_device_grants_is_not_trained(model):
    import msgspec

    trust, ask = prepared(model)
    needed = model.manifest.memory_bytes
    assert needed > 1 << 20
    assert ask(needed) == model
    with pytest.raises(RemoteProtocolError, match="memory: expected a training in") as fault:
        ask(needed - 1)
    assert fault.value.code == "limits"
    assert trust.refusals
    # A manifest that claims too little is not believed: the weights alone take memory.
    _, ask = prepared(model, manifest=msgspec.structs.replace(model.manifest, memory_bytes=0))
    with pytest.raises(RemoteProtocolError, match="memory"):
        ask(4 * model.manifest.layout.size)


def test_a_model_of_a_task_type_without_a_plug_in_is_refused(model):
    import msgspec

    _, ask = prepared(model, manifest=msgspec.structs.replace(model.manifest, task_type="weather"))
    with pytest.raises(ConfigError, match="'weather' is not installed; there are classification, keyboard"):
        ask(1 << 30)
