"""An aggregation as the worker does it, over stored frames."""

import gc
import math
import tracemalloc

import msgspec
import numpy as np
import pytest

from nightjar.coordinator.engine.aggregation import do_job
from nightjar.coordinator.learning.strategies import Aggregation, StrategyChoice, StrategyName
from nightjar.coordinator.records.jobs import AggregationJob, FiguresJob, ReportFile, TooFewReadable
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.model_folder import import_model
from nightjar.wire import frame
from nightjar.wire.errors import IntegrityError
from nightjar.wire.messages import Assignment, CodecChoice, TrainingPlan
from tests.coordinator.fake_device import report_frame
from tests.coordinator.fakes import KeptFrames
from tests.coordinator.model_folder import write_model

SPARSE = CodecChoice(name="topk-8", density=0.01)
WORDS = tuple(f"w{number}" for number in range(3_000))


class Averaging:
    """Reports on disk, and jobs over them."""

    def __init__(self, folder, choice: StrategyChoice | None = None) -> None:
        self.manifest = write_model(folder / "model", WORDS)
        self.artifacts, self.private = FileBlobs(folder / "artifacts"), KeptFrames()
        import_model(folder / "model", self.artifacts)
        self.choice = choice or StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0)

    def report(self, number: int) -> ReportFile:
        asked = Assignment(
            task="t",
            round=1,
            attempt=1,
            version=0,
            manifest=self.manifest.sha256,
            codec=SPARSE,
            plan=TrainingPlan(learning_rate=1, clip_norm=1),
            report_deadline_s=1,
        )
        layout = self.manifest.layout
        delta = np.random.default_rng(number).normal(0, 0.01, layout.size).astype(np.float32)
        data = report_frame(asked, delta, layout, num_examples=1 + number)
        return self.private.keep(data, f"d{number:03d}", 1 + number)

    def frame(self, report: ReportFile) -> bytes:
        return self.private.frame(1, report.device, report.attempt)

    def broken_report(self, number: int) -> ReportFile:
        """Its values are sound and its CRC is right; its positions are nonsense."""
        good = frame.decode(self.frame(self.report(number)))
        k = int.from_bytes(good.payload[:4], "little")
        cut = msgspec.structs.replace(good, payload=good.payload[: 8 + k] + bytes(40))
        return self.private.keep(frame.encode_report(cut), f"d{number:03d}", 2)

    def job(self, reports, state: str | None = None) -> AggregationJob:
        return AggregationJob(
            round=1,
            manifest=self.manifest.sha256,
            reports=tuple(reports),
            minimum=1,
            codec=SPARSE,
            strategy=self.choice,
            optimizer_state=state,
            evaluation=None,
        )

    def do(self, job: AggregationJob):
        return do_job(job, self.artifacts, self.private, lambda *_: None)


def test_the_order_in_which_reports_came_plays_no_part(tmp_path):
    world = Averaging(tmp_path)
    reports = [world.report(number) for number in range(7)]
    assert world.do(world.job(reports)) == world.do(world.job(reversed(reports)))


@pytest.mark.parametrize("work", ["mean", "figures"])
@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:90] + b"?" + data[91:]])
def test_a_report_that_the_disk_damaged_is_named(tmp_path, damage, work):
    world = Averaging(tmp_path)
    sound, damaged = world.report(0), world.report(1)
    job = world.job([sound, world.private.keep(damage(world.frame(damaged)), damaged.device, 1)])
    with pytest.raises(IntegrityError, match="stored report of d001 in round 1 is damaged"):
        world.do(job if work == "mean" else FiguresJob(job.round, job.reports))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_reports(tmp_path):
    world = Averaging(tmp_path)
    peaks = []
    reports = [world.report(number) for number in range(60)]
    world.do(world.job(reports))  # imports and caches
    for count in (10, 60):
        gc.collect()
        tracemalloc.start()
        world.do(world.job(reports[:count]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    few, many = peaks
    one_update = 12 * 0.01 * world.manifest.layout.size
    assert many - few < 2 * one_update + 60 * 300, "more than a line of the job for each report"


@pytest.mark.parametrize("name", StrategyName)
def test_the_state_is_stored_and_goes_on(tmp_path, name):
    world = Averaging(tmp_path, StrategyChoice(name=name, learning_rate=0.5))
    reports = [world.report(1), world.report(2)]
    first = world.do(world.job(reports))
    second = world.do(world.job(reports, first.optimizer_state))
    stateless = name in {StrategyName.FEDSGD, StrategyName.FEDAVG, StrategyName.FEDPROX}
    assert (first.optimizer_state is None) is stateless
    assert first.weights != world.manifest.weights.sha256
    assert (first.weights == second.weights) is stateless, "the base is the same, the state not"


def test_a_state_of_another_optimizer_is_not_used(tmp_path):
    world = Averaging(tmp_path, StrategyChoice(name=StrategyName.FEDAVGM, learning_rate=0.5))
    reports = [world.report(1), world.report(2)]
    left = world.do(world.job(reports)).optimizer_state
    changed = msgspec.structs.replace(world.choice, name=StrategyName.FEDADAGRAD)
    job = msgspec.structs.replace(world.job(reports), strategy=changed)
    assert world.do(msgspec.structs.replace(job, optimizer_state=left)).weights == world.do(job).weights


@pytest.mark.parametrize("rule", [Aggregation.MULTI_KRUM, Aggregation.NOISY_MEAN])
def test_the_worker_combines_reports_as_the_task_says(tmp_path, rule):
    world = Averaging(tmp_path, StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0, aggregation=rule))
    job = world.job([world.report(number) for number in range(6)])
    mean = msgspec.structs.replace(job, strategy=StrategyChoice(name=StrategyName.FEDAVG, learning_rate=1.0))
    robust = world.do(job).weights
    assert robust == world.do(job).weights
    assert robust != world.do(mean).weights


def test_the_clip_norm_follows_the_quantile_of_the_task(tmp_path):
    world = Averaging(tmp_path)
    reports = [world.report(number) for number in range(6)]
    job = msgspec.structs.replace(world.job(reports), clip_norm=1e-6)  # every update is longer
    found = {}
    for quantile in (0.5, 1.0):
        strategy = msgspec.structs.replace(world.choice, clip_quantile=quantile)
        found[quantile] = world.do(msgspec.structs.replace(job, strategy=strategy)).clip_norm
    assert found == {quantile: pytest.approx(1e-6 * math.exp(0.2 * quantile)) for quantile in (0.5, 1.0)}


def test_a_report_whose_positions_cannot_be_read_is_left_out_and_named(tmp_path):
    averaging = Averaging(tmp_path)
    sound = [averaging.report(number) for number in range(3)]
    broken = averaging.broken_report(3)
    done = averaging.do(averaging.job([*sound, broken]))
    assert done.unreadable == (broken.device,)
    assert done.weights == averaging.do(averaging.job(sound)).weights


def test_with_too_few_readable_reports_there_is_no_mean_and_all_that_cannot_be_read_are_named(tmp_path):
    averaging = Averaging(tmp_path)
    broken = [averaging.broken_report(number) for number in (1, 3)]
    job = averaging.job([averaging.report(0), averaging.report(2), *broken])
    done = averaging.do(msgspec.structs.replace(job, minimum=3))
    assert done == TooFewReadable(1, ("d001", "d003"))
