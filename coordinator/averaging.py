"""One aggregation from stored reports to stored weights: what the worker does.

Reads reports one at a time in ascending order of devices, so memory holds one update and one sum. Measuring is handed
in, because it needs TensorFlow and this does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from coordinator.core.aggregate import (
    Contribution,
    ServerOptimizer,
    Wide,
    fed_avg,
    fed_avg_m,
    weight_of,
    weighted_mean,
)
from coordinator.jobs import AggregationDone, AggregationJob, EvaluationDone, EvaluationJob, Job, Metrics, Result
from coordinator.ports import BlobStore
from models.manifest import Manifest
from wire import frame
from wire.codec import codec_for
from wire.errors import RemoteProtocolError
from wire.parameters import ParameterLayout, Vector, weights_from_bytes, weights_to_bytes

Measure = Callable[[Manifest, Vector, str], Metrics]
"""(manifest, weights (n,) float32, path of the evaluation text) -> how good they are."""


def do_job(job: Job, artifacts: BlobStore, private: BlobStore, measure: Measure) -> Result:
    """Do one job.

    Raises:
        NightjarError: a blob is missing or damaged, or the result is not finite.
    """
    manifest = Manifest.decode(artifacts.get(job.manifest))
    weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
    match job:
        case AggregationJob():
            return _aggregate(job, manifest, weights, artifacts, private, measure)
        case EvaluationJob(version, _, evaluation):
            return EvaluationDone(version, measure(manifest, weights, evaluation.text))


def _aggregate(
    job: AggregationJob,
    manifest: Manifest,
    weights: Vector,
    artifacts: BlobStore,
    private: BlobStore,
    measure: Measure,
) -> AggregationDone:
    mean = weighted_mean(_contributions(job, manifest.layout, private), manifest.layout.size)
    optimizer = _optimizer(job)
    following, state = optimizer.apply(weights, mean, _state(job, optimizer, manifest.layout.size, private))
    if not np.isfinite(following).all():
        msg = f"the weights after round {job.round} would not be finite; lower task.server.learning_rate"
        raise RemoteProtocolError(msg, code="not-finite")
    data = weights_to_bytes(following)
    change = following.astype(np.float64) - weights.astype(np.float64)
    return AggregationDone(
        round=job.round,
        weights=artifacts.put(data),
        size_bytes=len(data),
        optimizer_state=private.put(state.astype("<f8").tobytes()) if state.size else None,
        update_norm=float(np.linalg.norm(change)),
        metrics=None if job.evaluation is None else measure(manifest, following, job.evaluation.text),
    )


def _contributions(job: AggregationJob, layout: ParameterLayout, private: BlobStore) -> Iterator[Contribution]:
    codec = codec_for(job.codec)
    for stored in sorted(job.reports, key=lambda report: report.device):
        report = frame.decode(private.get(stored.sha256))
        if not isinstance(report, frame.Report):
            msg = f"the stored report of {stored.device} in round {job.round} is a chunk"
            raise RemoteProtocolError(msg)
        weight = weight_of(stored.num_examples, job.max_examples)
        yield Contribution(stored.device, weight, codec.decode(report.payload, layout))


def _optimizer(job: AggregationJob) -> ServerOptimizer:
    match job.optimizer:
        case "fedavgm":
            return fed_avg_m(job.learning_rate, job.momentum)
        case _:
            return fed_avg(job.learning_rate)


def _state(job: AggregationJob, optimizer: ServerOptimizer, size: int, private: BlobStore) -> Wide:
    first = optimizer.init(size)
    if job.optimizer_state is None or not first.size:
        return first
    state = np.frombuffer(private.get(job.optimizer_state), "<f8").astype(np.float64)
    return state if state.shape == first.shape else first
