"""The laboratory on a Ray cluster of two nodes, both on this machine."""

import json
import socket

import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.simulation.laboratory import ray_cluster, ray_executor
from nightjar.simulation.laboratory.checkpoint import CURVE
from nightjar.simulation.laboratory.command import learn
from nightjar.simulation.laboratory.ray_cluster import connected
from nightjar.simulation.laboratory.ray_executor import RayWorkers
from nightjar.simulation.laboratory.training import prepare
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.ray_clusters import MARKS, two_nodes, with_ray
from tests.simulation.laboratory.test_training import CORPUS, EXPERIMENT, StoppedError, trained

pytestmark = [pytest.mark.tflite, pytest.mark.tensorflow, *MARKS]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def curve(programs, tmp_path_factory):
    return trained(EXPERIMENT, tmp_path_factory.mktemp("whole"), programs)


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as (nodes, _port):
        yield nodes


def on(address, workers=2):
    return lambda prepared: RayWorkers(prepared.device_maker(), prepared.program, workers, prepared.folder, address)


def test_two_nodes_give_the_same_curve_even_after_a_kill(cluster, curve, programs, tmp_path):
    def stop(number, _point):
        if number == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(EXPERIMENT, tmp_path, programs, on(cluster.address), stop)
    assert trained(EXPERIMENT, tmp_path, programs, on(cluster.address)) == curve


def test_the_command_runs_on_a_cluster_and_gives_the_same_curve(cluster, programs, tmp_path, monkeypatch):
    monkeypatch.setattr("nightjar.simulation.laboratory.command.PROGRAMS", programs)
    lines = [f"{user}\t{message}\n" for user, messages in CORPUS.users.items() for message in messages]
    (tmp_path / "corpus.tsv").write_text("user\ttext\n" + "".join(lines))
    (tmp_path / "small.toml").write_text("rounds = 2\n[cohort]\nsize = 5\n")
    command = [str(tmp_path / "small.toml"), "--corpus", str(tmp_path / "corpus.tsv"), "--json", "--out"]
    CliRunner().invoke(learn, [*command, str(tmp_path / "here")], catch_exceptions=False)
    options = ["--workers", "2", "--ray", cluster.address]
    done = CliRunner().invoke(learn, [*command, str(tmp_path / "there"), *options], catch_exceptions=False)
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert (outcome["executor"], outcome["workers"]) == ("ray", 2)
    here, there = ((tmp_path / out / "seed-1" / CURVE).read_bytes() for out in ("here", "there"))
    assert here == there


def test_a_node_that_is_lost_changes_nothing(cluster, curve, programs, tmp_path):
    third = cluster.add_node(num_cpus=2)

    def lose(number, _point):
        if number == 1:
            cluster.remove_node(third)

    assert trained(EXPERIMENT, tmp_path, programs, on(cluster.address), lose) == curve


def test_a_device_that_cannot_train_says_so_as_it_does_here(cluster, programs, tmp_path):
    prepared = prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs)
    executor = on(cluster.address)(prepared)
    wild = np.full(prepared.layout.size, 1e30, np.float32)
    try:
        with pytest.raises(UnavailableError, match=r"^person \d+ could not train in round 3: .*smaller learning rate$"):
            executor.train([1, 2], 3, wild, measured=False)
    finally:
        executor.close()


def test_more_workers_than_processors_are_refused(cluster, programs, tmp_path):
    with pytest.raises(ConfigError, match="--workers 9: the Ray cluster has 2 processors"):
        on(cluster.address, 9)(prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs))


def test_machines_with_other_software_are_refused(cluster, programs, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_executor, "_installed", lambda: "Python 3.9")
    with pytest.raises(ConfigError, match=r"has Python .*, and this machine Python 3\.9: install the same"):
        on(cluster.address)(prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs))


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_answers_is_said_at_once(scheme):
    with_ray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"no Ray cluster answers at {scheme}127.0.0.1:{port}"):
        connected(f"{scheme}127.0.0.1:{port}")


def test_no_cluster_to_find_is_said_at_once(monkeypatch):
    with_ray()

    def init(*_arguments, **_options):
        raise ConnectionError("Could not find any running Ray instance")

    monkeypatch.setattr("ray.init", init)  # it would find that of these tests
    with pytest.raises(UnavailableError, match="no Ray cluster answers at auto"):
        connected("auto")


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port"])
def test_an_address_that_is_none_is_refused(address):
    with_ray()
    with pytest.raises(ConfigError, match="expected auto, HOST:PORT or ray://HOST:PORT"):
        connected(address)


def test_without_ray_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ray_cluster.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"nightjar-federated\[ray\]"):
        connected("auto")
