"""The worker process: a real child, with real jobs and with children that misbehave."""

import importlib.util
import io
import os
import queue
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from nightjar.coordinator.engine.worker import JOB_TIMEOUT_S, STORES, Stores, WorkerProcess, do_once
from nightjar.coordinator.engine.worker_child import answers
from nightjar.coordinator.learning.strategies import StrategyChoice, StrategyName
from nightjar.coordinator.records.inbox import JobEnded
from nightjar.coordinator.records.jobs import (
    AggregationDone,
    AggregationJob,
    EvaluationDone,
    EvaluationJob,
    JobFailed,
    ReportFile,
    Result,
)
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.coordinator.versions.quality_gate import Example
from nightjar.host.children import TRIES, answer_lines
from nightjar.host.retrying import GIVE_UP_AFTER_S
from nightjar.models.configurations import configuration
from nightjar.models.folder import write_model_folder
from nightjar.models.manifest import Manifest
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Assignment, CodecChoice, TrainingPlan
from nightjar.wire.parameters import weights_from_bytes
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import KeptFrames
from tests.coordinator.model_folder import INITIAL, LAYOUT, write_model
from tests.processes import is_alive

pytestmark = pytest.mark.slow

WORDS = Vocabulary(("the", "cat", "dog", "sat", "ran"))
DENSE = CodecChoice(name="dense-f32")


def database_at(folder: Path) -> str:
    return f"sqlite:///{folder / 'test.sqlite'}"


def stores_at(folder: Path) -> Stores:
    return Stores(artifacts=str(folder / "artifacts"), database_url=database_at(folder))


@pytest.fixture
def stores(tmp_path):
    manifest = write_model(tmp_path / "model")
    artifacts, private = FileBlobs(tmp_path / "artifacts"), KeptFrames(database_at(tmp_path))
    import_model(tmp_path / "model", artifacts)
    return manifest, artifacts, private


@pytest.fixture
def make_worker(tmp_path):
    made = []

    def make(*command: str) -> tuple[WorkerProcess, queue.Queue]:
        ended: queue.Queue = queue.Queue()
        extra = {"command": command} if command else {}
        made.append(WorkerProcess(stores_at(tmp_path), tmp_path / "log", ended.put, **extra))
        return made[-1], ended

    yield make
    for worker in made:
        worker.close()


def job_on(manifest, private, **changes) -> AggregationJob:
    asked = Assignment(
        task="t",
        round=1,
        attempt=1,
        version=0,
        manifest=manifest.sha256,
        codec=DENSE,
        plan=TrainingPlan(learning_rate=1, clip_norm=1),
        report_deadline_s=1,
    )
    reports = tuple(
        private.keep(report_frame(asked, np.full(LAYOUT.size, value), LAYOUT, weight), name, weight)
        for name, value, weight in (("b", 0.02, 300), ("a", 0.01, 1))
    )
    job = AggregationJob(
        round=1,
        manifest=manifest.sha256,
        reports=reports,
        minimum=1,
        codec=DENSE,
        strategy=StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0),
        optimizer_state=None,
        evaluation=None,
    )
    return msgspec.structs.replace(job, **changes)


def write_measurable(folder: Path) -> tuple[Manifest, Path]:
    """A folder ``model`` with a keyboard whose weights are all zero, and a text to measure it on."""
    shape = configuration("tiny")
    weights = np.zeros(shape.layout(WORDS.size).size, np.float32)
    manifest = write_model_folder(folder / "model", shape, WORDS, b"program", weights)
    text = folder / "text.tsv"
    text.write_text("user\ttext\na\tthe cat sat\nb\tthe dog ran\nc\tthe cat sat down\nd\tthe dog ran on\n")
    return manifest, text


def result_of(ended: queue.Queue):
    event = ended.get(timeout=60)
    assert isinstance(event, JobEnded)
    return event.result


def test_a_command_does_one_job_in_a_process_of_its_own(stores, tmp_path):
    manifest, artifacts, private = stores
    job = job_on(manifest, private)
    done = do_once(job, stores_at(tmp_path))
    assert isinstance(done, AggregationDone)
    assert artifacts.get(done.weights)
    nothing = msgspec.structs.replace(job, manifest="0" * 64)
    failed = do_once(nothing, stores_at(tmp_path))
    assert isinstance(failed, JobFailed)
    assert failed.round == 1


def test_the_worker_averages_what_is_clipped_and_the_same_job_gives_the_same_bytes(stores, make_worker):
    manifest, artifacts, private = stores
    worker, ended = make_worker()
    job = job_on(manifest, private)
    worker.submit(job)
    worker.submit(job)
    first, second = result_of(ended), result_of(ended)
    assert isinstance(first, AggregationDone)
    assert first == second
    weights = weights_from_bytes(artifacts.get(first.weights), LAYOUT)
    np.testing.assert_allclose(weights, INITIAL + 0.01, rtol=1e-6)


def test_a_missing_report_is_a_failed_job_and_the_worker_lives_on(stores, make_worker):
    manifest, _, private = stores
    worker, ended = make_worker()
    worker.submit(job_on(manifest, private, reports=(ReportFile(DeviceId("nobody"), 1, 1),)))
    worker.submit(job_on(manifest, private))
    failure = result_of(ended)
    assert isinstance(failure, JobFailed)
    assert failure.round == 1
    assert "lacks the report of nobody in round 1" in failure.reason
    assert isinstance(result_of(ended), AggregationDone)


class FullBlobs(FileBlobs):
    """A store on a disk that has no room for so many tries."""

    def __init__(self, folder: Path, tries: int) -> None:
        super().__init__(folder)
        self.tries = tries

    def put(self, data: bytes) -> str:
        self.tries -= 1
        if self.tries >= 0:
            raise UnavailableError("no space left; free some space")
        return super().put(data)


@pytest.mark.parametrize("tries", [3, 10_000])
def test_a_disk_that_is_full_for_minutes_does_not_cost_the_round(stores, tmp_path, tries):
    manifest, _, private = stores
    job, results, waits = job_on(manifest, private), io.BytesIO(), []
    full = FullBlobs(tmp_path / "artifacts", tries)
    answer_lines(io.BytesIO(msgspec.json.encode(job) + b"\n"), results, answers(full, private, waits.append))
    result = msgspec.json.decode(results.getvalue(), type=Result)
    if tries == 3:
        assert isinstance(result, AggregationDone)
        assert waits == [0.5, 1.0, 2.0]
    else:
        assert isinstance(result, JobFailed)
        assert "free some space" in result.reason
        assert GIVE_UP_AFTER_S <= sum(waits) < JOB_TIMEOUT_S


def test_a_worker_that_dies_is_replaced_once_and_then_the_job_has_failed(stores, make_worker, tmp_path):
    manifest, _, private = stores
    births = tmp_path / "births"
    dies = f"open({str(births)!r}, 'a').write('x'); import sys; sys.stdin.readline(); sys.exit(3)"
    worker, ended = make_worker(sys.executable, "-c", dies)
    worker.submit(job_on(manifest, private))
    failure = result_of(ended)
    assert isinstance(failure, JobFailed)
    assert "died" in failure.reason
    assert births.read_text() == "x" * TRIES


def test_closing_ends_a_worker_in_the_middle_of_a_job(stores, make_worker):
    manifest, _, private = stores
    worker, ended = make_worker(sys.executable, "-c", "import time; time.sleep(600)")
    worker.submit(job_on(manifest, private))
    begun = time.monotonic()
    while worker._child.pid is None and time.monotonic() < begun + 60:
        time.sleep(0.01)
    worker.close()
    assert time.monotonic() - begun < 300
    assert ended.empty()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_the_worker_dies_with_its_parent(stores, tmp_path):
    parent = (
        "import os, subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'nightjar.coordinator.engine.worker_child', str(os.getpid())]\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'{}\\n'); print(child.pid, flush=True); time.sleep(60)\n"
    )
    environment = {**os.environ, STORES: msgspec.json.encode(stores_at(tmp_path)).decode()}
    started = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=environment)
    child = int(started.stdout.readline())
    started.kill()
    started.wait()
    started.stdout.close()
    deadline = time.monotonic() + 120
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child)


def test_the_service_process_never_imports_tensorflow():
    modules = "nightjar.coordinator.service, nightjar.coordinator.engine.aggregation"
    code = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": "."}, check=False)
    assert done.returncode == 0


@pytest.mark.tensorflow
@pytest.mark.slow
def test_the_worker_measures_a_version_on_a_text(tmp_path, make_worker):
    if importlib.util.find_spec("tensorflow") is None:  # not imported: only the worker needs it
        pytest.skip("TensorFlow is not installed")
    manifest, text = write_measurable(tmp_path)
    import_model(tmp_path / "model", FileBlobs(tmp_path / "artifacts"))
    KeptFrames(database_at(tmp_path))
    worker, ended = make_worker()
    worker.submit(EvaluationJob(0, manifest.sha256, str(text)))
    measured = result_of(ended)
    assert isinstance(measured, EvaluationDone), measured
    # All weights are zero, so every id is equally likely, and the words of the lowest ids are suggested.
    assert measured.metrics.loss == pytest.approx(np.log(WORDS.size), rel=1e-3)
    assert (measured.metrics.top1, measured.metrics.top3) == (4 / 12, 8 / 12)  # the; the, cat, dog
    best = ("the", "cat", "dog")  # all alike, in order of their ids
    assert measured.metrics.examples == (Example("the cat", "sat", best), Example("the dog", "ran", best))
