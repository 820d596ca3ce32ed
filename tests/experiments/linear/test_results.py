import numpy as np
import pytest

from nightjar.coordinator.learning.fedavg import Contribution
from nightjar.experiments.linear.dense import Whole
from nightjar.experiments.linear.picture import draw
from nightjar.experiments.linear.results import TrainedRun, compared, record, results
from nightjar.experiments.linear.screening import Screened, keep, screened
from nightjar.experiments.linear.training import Sums
from nightjar.models.configurations import lstm_layout
from nightjar.simulation.laboratory.experiment import EvaluationSettings, Experiment
from nightjar.wire.codec import Sparse
from nightjar.wire.identifiers import DeviceId

LAYOUT = lstm_layout(40, 6, 10)


class Prepared:
    """What sums ask of a prepared run."""

    layout, seed = LAYOUT, 1
    experiment = Experiment(rounds=6, evaluation=EvaluationSettings(every=2))

    def __init__(self, folder):
        self.folder = folder


def finished(variant, losses, report_bytes=100, model="tiny"):
    return TrainedRun(
        model=model,
        start="random",
        variant=variant,
        rounds=max(losses),
        report_bytes=report_bytes,
        bytes_down=0,
        losses=losses,
        top1=0.1,
        top3=0.2,
        commit="1a2b3c4",
    )


def cohort(number):
    rng = np.random.default_rng(number)
    updates = [rng.normal(1, 1, LAYOUT.size).astype(np.float32) for _ in range(20)]
    return [
        Contribution(DeviceId(f"d{n:02d}"), 1.0 + n % 2, Sparse(LAYOUT.size, np.arange(LAYOUT.size), each))
        for n, each in enumerate(updates)
    ]


def test_a_sum_gives_the_weighted_mean_once_the_spread_is_known(tmp_path):
    sums = Sums(Whole(), 12, Prepared(tmp_path))
    for number in range(1, 7):
        found = sums.combine(number, cohort(number), LAYOUT.size).mean
    devices = cohort(6)
    expected = np.average([each.update.values for each in devices], axis=0, weights=[each.weight for each in devices])
    assert np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)
    values = LAYOUT.size + len(LAYOUT.tensors) + 1
    assert sums.cost(7) == (-(-values * 12 // 8), 0)


def test_sums_go_on_from_the_last_measured_round(tmp_path):
    whole, halves = Sums(Whole(), 12, Prepared(tmp_path)), []
    for number in range(1, 6):
        expected = whole.combine(number, cohort(number), LAYOUT.size).mean
    again = Sums(Whole(), 12, Prepared(tmp_path))
    for number in (5,):
        halves = again.combine(number, cohort(number), LAYOUT.size).mean
    np.testing.assert_array_equal(halves, expected)


def test_a_training_is_compared_with_the_dense_one_of_its_model_and_start(tmp_path):
    path = tmp_path / "results.json"
    record(finished("dense-f32", {0: 9.0, 10: 6.0, 100: 5.0}), path)
    record(finished("low-rank-1-1-1", {0: 9.0, 10: 8.0, 100: 5.5}), path)
    record(finished("low-rank-1-1-1", {0: 9.0, 10: 7.0, 100: 5.5}), path)
    record(finished("alone", {0: 9.0, 100: 5.5}, model="gboard"), path)
    shares = {each.trained.variant: (each.share, each.late_share) for each in compared(results(path))}
    assert shares == {"dense-f32": (1.0, 1.0), "low-rank-1-1-1": (pytest.approx(0.875), pytest.approx(0.5))}


def test_a_screening_replaces_that_of_its_model(tmp_path):
    def of(model, variant, cosine):
        beside = {"rounds": 20, "report_bytes": 100, "bytes_down": 0, "next_cosine": 1.0}
        return Screened(model=model, variant=variant, cosine=cosine, **beside)

    path = tmp_path / "screened.json"
    keep([of("tiny", "a", 0.1), of("tiny", "b", 0.2)], path)
    keep([of("gboard", "a", 0.3)], path)
    keep([of("tiny", "a", 0.4)], path)
    assert [(each.model, each.cosine) for each in screened(path)] == [("gboard", 0.3), ("tiny", 0.4)]


def test_what_was_recorded_is_drawn(tmp_path):
    path = tmp_path / "linear.svg"
    draw(path)
    drawn = path.read_text()
    names = {each.trained.variant for each in compared(results()) if each.trained.variant != "dense-f32"}
    assert all(f"<!-- {name}" in drawn for name in names | {each.variant for each in screened()})
