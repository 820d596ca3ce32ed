"""The worker's jobs: aggregate stored reports into stored weights, and measure versions.

It reads and writes the data for :mod:`coordinator.learning.fedavg`, with one report in memory at a time. A report that
proves undecodable (:mod:`coordinator.rounds.report_checks`) is left out of the mean, and its device is named in the
result. The caller passes in the measuring function, because that needs TensorFlow and this module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import numpy as np

from coordinator.engine.jobs import (
    AggregationDone,
    AggregationJob,
    EvaluationDone,
    EvaluationJob,
    FiguresDone,
    FiguresJob,
    Job,
    ReportFile,
    Result,
    SummedReports,
    TooFewReadable,
    VersionMetrics,
)
from coordinator.learning.device_metrics import tally
from coordinator.learning.downlink import Base, keeps_residual, publish, ways_to
from coordinator.learning.fedavg import Averaged, ClientUpdate, TooFewReadableError, federated_average
from coordinator.learning.privacy.noised_mean import noised_mean
from coordinator.learning.robust import aggregate_for
from coordinator.learning.strategies import (
    ServerOptimizer,
    State,
    Wide,
    optimizer_for,
    state_from_bytes,
    state_to_bytes,
)
from coordinator.learning.summed import average_of_sum
from coordinator.ports import BlobStore, PrivateStore
from coordinator.tasks.settings import CodecConfig
from host.primitives import LibraryPrimitives
from models.manifest import Artifact, Manifest
from wire import frame
from wire.codec import MASKED, Codec, codec_for
from wire.codec.masks import choose_mask, mask_from_bytes, mask_to_bytes
from wire.codec.quantize import Ints
from wire.codec.sparsify import count_for
from wire.errors import IntegrityError, NightjarError, RemoteProtocolError
from wire.identifiers import DeviceId
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector, weights_from_bytes, weights_to_bytes
from wire.secure_sum.messages import MaskedUpdate, decode_up

RANDOM_SHARE = 0.2
"""Share of a mask's coordinates drawn at random: a coordinate that is never sent cannot show that it matters."""
_NOISE = 1
"""Part of the seed of an aggregation's noise, so that it is not the noise of rounding."""

Measure = Callable[[Manifest, Vector, str], VersionMetrics]
"""(manifest, weights (n,) float32, path of the evaluation text) -> metrics."""


def do_job(job: Job, artifacts: BlobStore, private: PrivateStore, measure: Measure) -> Result:
    """Do one job.

    Args:
        job: the job to do.
        artifacts: store of the public artifacts.
        private: store of reports and optimizer states.
        measure: measures weights on a text.

    Raises:
        NightjarError: a blob is missing or damaged, or the result is not finite.
    """
    if isinstance(job, FiguresJob):
        evaluations = (_read(job, stored, private).evaluation for stored in job.reports)
        return FiguresDone(job.round, tally((each for each in evaluations if each is not None), trained=False))
    manifest = Manifest.decode(artifacts.get(job.manifest))
    weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
    match job:
        case AggregationJob():
            done = _aggregate(job, manifest, weights, artifacts, private)
            if job.evaluation is None or isinstance(done, TooFewReadable):
                return done
            following = weights_from_bytes(artifacts.get(done.weights), manifest.layout)
            metrics = measure(manifest, following, job.evaluation.text)
            return msgspec.structs.replace(done, metrics=metrics)
        case EvaluationJob(version, _, evaluation):
            return EvaluationDone(version, measure(manifest, weights, evaluation.text))


def _aggregate(
    job: AggregationJob,
    manifest: Manifest,
    weights: Vector,
    artifacts: BlobStore,
    private: PrivateStore,
) -> AggregationDone | TooFewReadable:
    layout, optimizer = manifest.layout, optimizer_for(job.strategy, job.committed)
    codec = asked_codec(job.codec, manifest, artifacts)
    state, residual = _state(job, optimizer, layout.size, private)
    evaluations: dict[DeviceId, frame.LocalEvaluation] = {}

    def payload(stored: ReportFile) -> bytes:
        report = _read(job, stored, private)
        if report.evaluation is not None:
            evaluations[stored.device] = report.evaluation
        return report.payload

    updates = [ClientUpdate(each.device, each.num_examples, partial(payload, each)) for each in job.reports]
    noise = job.noise
    if noise is None:
        aggregate = aggregate_for(job.strategy, np.random.default_rng([job.seed, job.round, _NOISE]))
    else:
        aggregate = noised_mean(noise, job.step)
    try:
        if job.summed is not None:
            averaged = _average_of_sum(job, job.summed, manifest, weights, state, optimizer, artifacts, private)
        else:
            averaged = federated_average(
                weights,
                state,
                updates,
                codec,
                layout,
                optimizer,
                job.clip_norm if noise is None else noise.clip_norm,
                job.minimum,
                aggregate,
                equal=noise is not None,
            )
    except TooFewReadableError as error:
        return TooFewReadable(job.round, error.devices)
    rng = np.random.default_rng([job.seed, job.round])
    published = publish(weights, averaged.weights + residual, job.downlink, layout, rng)
    following = published.weights
    if not np.isfinite(following).all():
        msg = f"the weights after round {job.round} would not be finite; lower task.strategy.server_learning_rate"
        raise RemoteProtocolError(msg, code="not-finite")
    data = weights_to_bytes(following)
    change = (following.astype(np.float64) - weights.astype(np.float64)).astype(np.float32)
    kept = averaged.state if published.residual is None else np.vstack([averaged.state, published.residual])
    ways = ways_to(published, Base(manifest.weights.sha256, weights), _earlier(job, artifacts), layout)
    for _, file in ways:
        artifacts.put(file)
    return AggregationDone(
        round=job.round,
        weights=artifacts.put(data),
        size_bytes=len(data),
        optimizer_state=private.keep_state(state_to_bytes(job.strategy.name.value, kept)) if kept.size else None,
        metrics=None,
        clip_norm=averaged.clip_norm,
        unreadable=averaged.unreadable,
        left_out=averaged.left_out,
        transfers=tuple(transfer for transfer, _ in ways),
        mask=next_mask(job.codec, change, layout, rng, artifacts),
        federated=tally(each for device, each in evaluations.items() if device not in averaged.unreadable),
    )


def _average_of_sum(
    job: AggregationJob,
    summed: SummedReports,
    manifest: Manifest,
    weights: Vector,
    state: State,
    optimizer: ServerOptimizer,
    artifacts: BlobStore,
    private: PrivateStore,
) -> Averaged:
    def updates() -> Iterator[bytes]:
        for stored in job.reports:
            update = decode_up(_read(job, stored, private).payload)
            if isinstance(update, MaskedUpdate):
                yield update.values

    mask = _mask_of(manifest, artifacts)
    return average_of_sum(weights, state, summed.plan, updates(), summed.order, mask, optimizer, LibraryPrimitives())


def next_mask(
    codec: CodecChoice,
    last_update: Vector | None,
    layout: ParameterLayout,
    rng: np.random.Generator,
    artifacts: BlobStore,
) -> Artifact | None:
    """Choose and store the mask of updates to the next version; None if the codec needs none."""
    if codec.name not in MASKED:
        return None
    count = count_for(codec.density, layout.size)
    data = mask_to_bytes(choose_mask(last_update, count, RANDOM_SHARE, layout.size, rng), layout)
    artifacts.put(data)
    return Artifact.of(data)


def with_mask(manifest: Manifest, asked: CodecConfig, seed: int, artifacts: BlobStore) -> Manifest:
    """The manifest with a random mask, if the task's codec needs one and the manifest has none of the right size."""
    codec = asked.choice()
    if codec.name not in MASKED:
        return manifest
    if manifest.mask is not None:
        chosen = mask_from_bytes(artifacts.get(manifest.mask.sha256), manifest.layout)
        if chosen.size == count_for(codec.density, manifest.layout.size):
            return manifest
    rng = np.random.default_rng([seed, manifest.version])
    mask = next_mask(codec, None, manifest.layout, rng, artifacts)
    return msgspec.structs.replace(manifest, mask=mask)


def asked_codec(codec: CodecChoice, manifest: Manifest, artifacts: BlobStore) -> Codec:
    """The codec of updates to a version, with the version's mask if the codec needs one.

    Raises:
        NightjarError: the mask is missing or damaged.
    """
    if codec.name not in MASKED or manifest.mask is None:
        return codec_for(codec)
    return codec_for(codec, _mask_of(manifest, artifacts))


def _mask_of(manifest: Manifest, artifacts: BlobStore) -> Ints:
    if manifest.mask is None:
        msg = f"version {manifest.version} has no mask"
        raise IntegrityError(msg)
    return mask_from_bytes(artifacts.get(manifest.mask.sha256), manifest.layout)


def _earlier(job: AggregationJob, artifacts: BlobStore) -> Iterator[Base]:
    """Earlier versions, newest first, up to the first one whose files were removed."""
    for name in job.bases:
        try:
            manifest = Manifest.decode(artifacts.get(name))
            weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
        except NightjarError:
            return
        yield Base(manifest.weights.sha256, weights)


def _read(job: AggregationJob | FiguresJob, stored: ReportFile, private: PrivateStore) -> frame.Report:
    """A stored report. It was checked on arrival, so a report that can no longer be read was damaged on disk."""
    whose = f"the stored report of {stored.device} in round {job.round}"
    try:
        report = frame.decode(private.frame(job.round, stored.device, stored.attempt))
    except RemoteProtocolError as error:
        msg = f"{whose} is damaged: {error}"
        raise IntegrityError(msg) from error
    if not isinstance(report, frame.Report):
        msg = f"{whose} is a chunk"
        raise IntegrityError(msg)
    return report


def _state(job: AggregationJob, optimizer: ServerOptimizer, size: int, private: PrivateStore) -> tuple[State, Wide]:
    """The optimizer's state, and the residual of the downlink, which is stored as the row after it."""
    first = optimizer.init(size)
    vectors = len(first)
    if keeps_residual(job.downlink):
        first = np.vstack([first, np.zeros(size)])
    if job.optimizer_state is not None and first.size:
        first = state_from_bytes(private.state(job.optimizer_state), job.strategy.name.value, first)
    return first[:vectors], first[vectors] if len(first) > vectors else np.zeros(size)
