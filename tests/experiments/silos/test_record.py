import msgspec
import pytest
from click.testing import CliRunner

from nightjar.experiments import record
from nightjar.experiments.silos import record as silos
from nightjar.experiments.silos.command import OUTCOME
from nightjar.experiments.silos.study import HALVES, LABELS, StudyRun
from nightjar.wire.errors import ConfigError


def test_runs_that_ended_become_a_row_for_each_model_and_split(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path / "results.json")
    for split, seed, federated in ((HALVES, 0, 0.7), (HALVES, 1, 0.9), (LABELS, 0, 0.6)):
        folder = tmp_path / "runs" / f"{split}-{seed}"
        folder.mkdir(parents=True)
        run = StudyRun("lenet-5", split, seed, (0.5, 0.4), 0.9, federated, 20, 10**6, 2 * 10**6, 1.0)
        (folder / OUTCOME).write_bytes(msgspec.json.encode(run))
    (tmp_path / "runs" / "killed").mkdir()
    arguments = [str(tmp_path / "runs"), "--command", "silos", "--commit", "1a2b3c4"]
    CliRunner().invoke(silos.main, arguments, catch_exceptions=False)
    labels, halves = record.results()
    assert (halves.measured, halves.pooled, halves.delta_accuracy) == pytest.approx((0.8, 0.9, 0.1))
    assert (halves.seeds, halves.commit, halves.figures["MB down"]) == ([0, 1], "1a2b3c4", 2)
    assert (labels.seeds, labels.spread, labels.printed) == ([0], None, None)


def test_a_folder_without_an_ended_run_is_refused(tmp_path):
    result = CliRunner().invoke(silos.main, [str(tmp_path), "--command", "silos", "--commit", "1a2b3c4"])
    assert isinstance(result.exception, ConfigError)
