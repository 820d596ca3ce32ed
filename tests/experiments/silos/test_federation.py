"""Two silos and a coordinator as processes: enrolled, with mutual TLS, killed in the middle."""

import contextlib
import sqlite3
from collections import Counter

import numpy as np
import pytest

from nightjar.experiments.silos.hosts import Loopback, plug
from nightjar.experiments.silos.progress import RunPart
from nightjar.experiments.silos.study import HALVES, Images, SiloTraining, run_seed
from tests.hosts.network import hosts

pytestmark = [pytest.mark.broker, pytest.mark.tflite, pytest.mark.tensorflow]
NAMES = {"silo-a", "silo-b"}


def generated(count: int) -> Images:
    """Images of ten classes around random centres."""
    rng = np.random.default_rng(0)
    centres = rng.random((10, 8, 8, 1), np.float32)
    y = np.arange(2 * count) % 10
    x = (centres[y] + 0.3 * rng.normal(size=(2 * count, 8, 8, 1))).astype(np.float32)
    return Images(x[:count], y[:count], x[count:], y[count:])


def counted(folder):
    """(Round, device) of every accepted report, and the rounds that made a version."""
    with contextlib.closing(sqlite3.connect(folder / "federation/coordinator/coordinator.sqlite")) as database:
        reports = database.execute("SELECT round, device FROM reports").fetchall()
        return reports, [number for (number,) in database.execute("SELECT round FROM versions WHERE version > 0")]


@pytest.mark.verify
def test_two_silos_train_together_as_well_as_on_their_pooled_images(tmp_path):
    said = []
    recipe = SiloTraining("logistic", 0.5, 0.5, epochs=3)
    run = run_seed(generated(320), recipe, HALVES, 0, tmp_path / "run", [Loopback()] * 3, said.append)
    assert run.rounds == 6
    assert str(said[-1]) == "federated: 6 of 6 rounds"
    assert run.federated > run.pooled - 0.1
    assert run.bytes_up > 2 * run.rounds * 4 * (64 * 10 + 10)
    assert Counter(device for _, device in counted(tmp_path / "run")[0]) == dict.fromkeys(NAMES, 6)
    here = run_seed(generated(320), recipe, HALVES, 0, tmp_path / "here", [], said.append, pooled=run.pooled)
    assert str(said[-1]) == "federated: 6 of 6 rounds"
    assert (here.rounds, here.alone, here.pooled) == (run.rounds, run.alone, run.pooled)
    assert abs(here.federated - run.federated) < 0.1


@pytest.mark.verify
@pytest.mark.timeout(1200)
def test_each_of_three_hosts_is_killed_and_every_round_counts_once(tmp_path):
    with hosts(3) as (centre, *others):
        plug(centre, others)
        victims, made = {2: "silo-a", 4: "coordinator", 6: "silo-b"}, []

        def kill(now: RunPart) -> None:
            victim = victims.pop(now.done, None) if now.name == "federated" else None
            if victim is not None:
                next(each for each in (made[0].coordinator, *made[0].silos) if each.name == victim).kill()

        run = run_seed(
            generated(320),
            SiloTraining("logistic", 0.1, 0.1, epochs=5),
            HALVES,
            0,
            tmp_path / "run",
            [centre, *others],
            kill,
            made.append,
        )
    assert not victims
    reports, committed = counted(tmp_path / "run")
    assert run.rounds == len(committed) == 10
    assert len(reports) == len(set(reports))
    for number in committed:
        assert {device for round_number, device in reports if round_number == number} == NAMES
    assert run.federated > 0.5
    for log in (tmp_path / "run/federation").glob("*.log"):
        assert "Traceback" not in log.read_text(), log
