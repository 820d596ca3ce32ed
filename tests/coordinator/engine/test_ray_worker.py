"""The worker's jobs on a Ray cluster of two nodes: the same result as in the child process, and what may go wrong."""

import os
import queue
import signal

import msgspec
import psutil
import pytest

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.config_file import disagreements
from nightjar.coordinator.engine import ray_worker
from nightjar.coordinator.engine.ray_cluster import connected
from nightjar.coordinator.engine.ray_worker import RayWorker
from nightjar.coordinator.engine.worker import Stores, WorkerProcess
from nightjar.coordinator.records.jobs import AggregationDone, EvaluationDone, EvaluationJob, JobFailed, Result
from nightjar.coordinator.storage.artifacts import open_artifacts
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.model_folder import import_model
from tests.coordinator.engine.test_worker import job_on, write_measurable
from tests.coordinator.fakes import KeptFrames
from tests.coordinator.model_folder import write_model
from tests.coordinator.storage.postgresql import fresh_database, server
from tests.ray_clusters import MARKS, two_nodes

pytestmark = [pytest.mark.postgresql, pytest.mark.tensorflow, *MARKS]
RESULTS: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as found:
        yield found


@pytest.fixture
def site(tmp_path):
    """Stores that several hosts share, with a model and two reports in them."""
    with server() as address:
        url = fresh_database(address, "ray")
        database = Database(url)
        manifest = write_model(tmp_path / "model")
        artifacts = open_artifacts(tmp_path / "artifacts", "", database)
        import_model(tmp_path / "model", artifacts)
        stores = Stores(artifacts=str(tmp_path / "artifacts"), database_url=url)
        yield stores, job_on(manifest, KeptFrames(url)), artifacts
        database.close()


def result(worker: RayWorker, job) -> Result:
    return RESULTS.decode(worker.answer(msgspec.json.encode(job)))


def done(stores: Stores, jobs, log, ray) -> list[Result]:
    """The results of jobs in a worker's process."""
    ended: queue.Queue = queue.Queue()
    worker = WorkerProcess(stores, log, ended.put, ray=ray)
    try:
        for job in jobs:
            worker.submit(job)
        return [ended.get(timeout=300).result for _ in jobs]
    finally:
        worker.close()


def test_a_cluster_gives_the_results_of_the_child_process(cluster, site, tmp_path):
    nodes, _ = cluster
    stores, job, artifacts = site
    (tmp_path / "measurable").mkdir()
    manifest, text = write_measurable(tmp_path / "measurable")
    import_model(tmp_path / "measurable" / "model", artifacts)
    jobs = (job, EvaluationJob(0, manifest.sha256, str(text)))
    there = done(stores, jobs, tmp_path / "log", nodes.address)
    averaged, found = there
    assert isinstance(averaged, AggregationDone), (averaged, (tmp_path / "log").read_text())
    assert isinstance(found, EvaluationDone), found
    assert artifacts.get(averaged.weights), "written to the shared store"
    assert there == done(stores, jobs, tmp_path / "log", "")


def test_a_coordinator_need_not_belong_to_the_cluster(cluster, site, tmp_path):
    _, port = cluster
    stores, job, _ = site
    (averaged,) = done(stores, [job], tmp_path / "log", f"ray://127.0.0.1:{port}")
    assert isinstance(averaged, AggregationDone), (averaged, (tmp_path / "log").read_text())


def test_a_clusters_workers_run_no_code_of_the_current_folder(cluster, tmp_path, monkeypatch):
    nodes, _ = cluster
    monkeypatch.chdir(tmp_path)
    ray = connected(nodes.address)
    try:
        path = ray.get(ray.remote(lambda: __import__("sys").path).remote())
    finally:
        ray.shutdown()
    assert str(tmp_path) not in path


def test_the_actor_is_started_again_when_it_is_killed(cluster, site):
    nodes, _ = cluster
    stores, job, _ = site
    worker = RayWorker(stores, nodes.address)
    try:
        first = result(worker, job)
        actors = [each for each in psutil.process_iter(["cmdline"]) if "_Actor" in " ".join(each.info["cmdline"] or [])]
        for each in actors:
            os.kill(each.pid, signal.SIGKILL)
        assert actors
        assert isinstance(first, AggregationDone)
        assert result(worker, job) == first
    finally:
        worker.leave()


def test_a_job_that_fails_says_why(cluster, site):
    nodes, _ = cluster
    stores, job, _ = site
    worker = RayWorker(stores, nodes.address)
    try:
        failed = result(worker, msgspec.structs.replace(job, manifest="0" * 64))
        assert isinstance(failed, JobFailed)
        assert "0" * 64 in failed.reason
        gone = result(worker, msgspec.structs.replace(job, evaluation="/nowhere/text.tsv"))
        assert isinstance(gone, JobFailed)
        assert "/nowhere/text.tsv" in gone.reason
    finally:
        worker.leave()


def test_machines_with_other_software_are_refused(cluster, site, monkeypatch):
    nodes, _ = cluster
    stores, job, _ = site
    monkeypatch.setattr(ray_worker, "installed", lambda _packages: "Python 3.9")
    failed = result(RayWorker(stores, nodes.address), job)
    assert isinstance(failed, JobFailed)
    assert "and this machine Python 3.9: install the same on both" in failed.reason


def test_a_cluster_that_does_not_answer_is_tried_again_until_the_job_fails(site):
    stores, job, _ = site
    waits = []
    failed = result(RayWorker(stores, "127.0.0.1:1", waits.append), job)
    assert isinstance(failed, JobFailed)
    assert "no Ray cluster answers at 127.0.0.1:1" in failed.reason
    assert sum(waits) >= 600


def test_sqlite_on_one_host_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.config_file.find_spec", lambda _name: None)
    faults = disagreements(CoordinatorConfig(task=TaskConfig(model=tmp_path), data_dir=tmp_path, ray="auto"))
    assert [each.partition(":")[0] for each in faults if each.startswith("ray")] == ["ray", "ray"]
