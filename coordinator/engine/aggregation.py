"""The worker's jobs: aggregate stored reports into stored weights, and measure versions.

It reads and writes the data for :mod:`nightjar.coordinator.learning.fedavg`, with one report in memory at a time. A
report that proves undecodable (:mod:`nightjar.coordinator.rounds.report_checks`) is left out of the mean, and its
device is named in the result. The caller passes in the measuring function, because that needs TensorFlow and this
module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from nightjar.coordinator.learning.device_metrics import Tally, keystrokes, merged, tally
from nightjar.coordinator.learning.downlink import Base, earlier_steps, keeps_residual, publish, ways_to
from nightjar.coordinator.learning.fedavg import (
    ClientUpdate,
    TooFewReadableError,
    federated_average,
    following_quantile,
)
from nightjar.coordinator.learning.privacy.adaptive_clipping import next_private_norm
from nightjar.coordinator.learning.privacy.ledger import Privacy
from nightjar.coordinator.learning.privacy.noised_mean import noised_mean
from nightjar.coordinator.learning.robust import aggregate_for
from nightjar.coordinator.learning.staleness import parse_staleness
from nightjar.coordinator.learning.strategies import (
    ServerOptimizer,
    State,
    Weighting,
    Wide,
    optimizer_for,
    state_from_bytes,
    state_to_bytes,
)
from nightjar.coordinator.learning.summed import SumAveraged, average_of_sum, first_bases, rank_for, unmasked_sum
from nightjar.coordinator.ports import BlobStore, PrivateStore
from nightjar.coordinator.records.jobs import (
    AggregationDone,
    AggregationJob,
    EvaluationDone,
    EvaluationJob,
    FiguresDone,
    FiguresJob,
    Job,
    ReportFile,
    Result,
    TooFewReadable,
)
from nightjar.coordinator.versions.announcement import KeyboardOutcome, verdict
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.host.primitives import LibraryPrimitives
from nightjar.models.manifest import Artifact, Manifest
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import IntegrityError, NightjarError, RemoteProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.parameters import Vector, weights_from_bytes, weights_to_bytes
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.messages import MaskedUpdate, decode_up

_NOISE = 1
"""Part of the seed of an aggregation's noise, so that it is not the noise of rounding."""

Measure = Callable[[Manifest, Vector, str], VersionMetrics]
"""(manifest, weights (n,) float32, path of the evaluation text) -> metrics."""


def do_job(job: Job, artifacts: BlobStore, private: PrivateStore, measure: Measure) -> Result:
    """Do one job.

    Raises:
        NightjarError: a blob is missing or damaged, or the result is not finite.
    """
    if isinstance(job, FiguresJob):
        return FiguresDone(job.round, _measured([_read(job, stored, private) for stored in job.reports], trained=False))
    manifest = Manifest.decode(artifacts.get(job.manifest))
    weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
    match job:
        case AggregationJob():
            done = _aggregate(job, manifest, weights, artifacts, private)
            if job.evaluation is None or isinstance(done, TooFewReadable):
                return done
            following = weights_from_bytes(artifacts.get(done.weights), manifest.layout)
            metrics = measure(manifest, following, job.evaluation)
            return msgspec.structs.replace(done, metrics=metrics)
        case EvaluationJob(version, _, evaluation):
            return EvaluationDone(version, measure(manifest, weights, evaluation))


def _aggregate(
    job: AggregationJob,
    manifest: Manifest,
    weights: Vector,
    artifacts: BlobStore,
    private: PrivateStore,
) -> AggregationDone | TooFewReadable:
    layout, optimizer = manifest.layout, optimizer_for(job.strategy, job.committed)
    state, residual, average = _state(job, optimizer, layout.size, private)
    rng = np.random.default_rng([job.seed, job.round])
    summed: SumAveraged | None = None
    measured: dict[DeviceId, frame.Report] = {}

    def payload(stored: ReportFile) -> bytes:
        report = _read(job, stored, private)
        if report.evaluation is not None and not stored.staleness:  # else it is of an earlier version
            measured[stored.device] = msgspec.structs.replace(report, payload=b"")
        return report.payload

    factor = parse_staleness(job.staleness)
    updates = [
        ClientUpdate(each.device, each.num_examples, partial(payload, each), factor(each.staleness))
        for each in job.reports
    ]
    noise, clip_norm, next_norm = job.noise, job.clip_norm, following_quantile(job.strategy.clip_quantile)
    if noise is None:
        aggregate = aggregate_for(job.strategy, np.random.default_rng([job.seed, job.round, _NOISE]))
    else:
        clip_norm = noise.clip_norm if clip_norm is None else clip_norm
        aggregate, next_norm = noised_mean(noise, job.step, clip_norm), partial(next_private_norm, noise, job.step)
    try:
        if job.summed is not None:
            summed = average_of_sum(
                weights,
                state,
                average.astype(np.float32),
                unmasked_sum(job.summed.plan, _masked(job, private), LibraryPrimitives()),
                len(job.summed.plan.members),
                job.summed.order,
                layout,
                _bases(manifest, artifacts),
                optimizer,
                rng,
            )
            averaged = summed.averaged
        else:
            averaged = federated_average(
                weights,
                state,
                updates,
                codec_for(job.codec),
                layout,
                optimizer,
                clip_norm,
                job.minimum,
                aggregate,
                weighting=job.strategy.weighting if noise is None else Weighting.EQUAL,
                next_norm=next_norm,
            )
    except TooFewReadableError as error:
        return TooFewReadable(job.round, error.devices)
    federated = _measured([each for device, each in measured.items() if device not in averaged.unreadable])
    base = Base(manifest.weights.sha256, weights)
    held, reference = _held_by_devices(job, federated, manifest, base, artifacts)
    published = publish(reference, averaged.weights + residual, job.downlink, layout, rng)
    following = published.weights
    if not np.isfinite(following).all():
        msg = f"the weights after round {job.round} would not be finite; lower task.strategy.server_learning_rate"
        raise RemoteProtocolError(msg, code="not-finite")
    data = weights_to_bytes(following)
    further = (published.residual, None if summed is None else summed.average)
    kept: State = np.vstack([averaged.state, *(each for each in further if each is not None)], dtype=np.float64)
    ways = ways_to(published, chain((base,), _earlier(job, artifacts)), layout)
    for _, file in ways:
        artifacts.put(file)
    return AggregationDone(
        round=job.round,
        weights=artifacts.put(data),
        size_bytes=len(data),
        optimizer_state=private.keep_state(state_to_bytes(job.strategy.name, kept)) if kept.size else None,
        metrics=None,
        clip_norm=averaged.clip_norm,
        unreadable=averaged.unreadable,
        left_out=averaged.left_out,
        transfers=(*(transfer for transfer, _ in ways), *earlier_steps(published, held)),
        bases=None if summed is None else _stored(summed.bases, artifacts),
        federated=federated,
    )


def _held_by_devices(
    job: AggregationJob, federated: Tally, manifest: Manifest, base: Base, artifacts: BlobStore
) -> tuple[Manifest, Base]:
    """The version that devices will hold when they are told of the new one: the announced one.

    What this round's devices measured may be what makes the base version the announced one.
    """
    if job.announced is None or not keeps_residual(job.downlink):
        return manifest, base
    tally = merged(job.announced.found, federated)
    found = verdict(tally, manifest.version, job.announced.version, job.minimum)
    if found.outcome is KeyboardOutcome.BETTER:
        return manifest, base
    held = Manifest.decode(artifacts.get(job.announced.manifest))
    return held, Base(held.weights.sha256, weights_from_bytes(artifacts.get(held.weights.sha256), held.layout))


def _measured(reports: Sequence[frame.Report], *, trained: bool = True) -> Tally:
    """What the devices of these reports measured."""
    evaluations = (each.evaluation for each in reports if each.evaluation is not None)
    keyboards = (each.keyboard for each in reports if each.keyboard is not None)
    return merged(tally(evaluations, trained=trained), keystrokes(keyboards))


def _masked(job: AggregationJob, private: PrivateStore) -> Iterator[bytes]:
    for stored in job.reports:
        update = decode_up(_read(job, stored, private).payload)
        if isinstance(update, MaskedUpdate):
            yield update.values


def with_bases(manifest: Manifest, privacy: Privacy, seed: int, artifacts: BlobStore) -> Manifest:
    """The manifest with random bases, if the task needs some and the manifest has none of the right rank."""
    if not privacy.summed:
        return manifest
    if manifest.bases is not None:
        try:
            from_bytes(artifacts.get(manifest.bases.sha256), manifest.layout, rank_for(manifest.layout))
        except RemoteProtocolError:
            pass  # of another rank
        else:
            return manifest
    data = first_bases(manifest.layout, np.random.default_rng([seed, manifest.version]))
    return msgspec.structs.replace(manifest, bases=_stored(data, artifacts))


def _stored(data: bytes, artifacts: BlobStore) -> Artifact:
    artifacts.put(data)
    return Artifact.of(data)


def _bases(manifest: Manifest, artifacts: BlobStore) -> bytes:
    if manifest.bases is None:
        msg = f"version {manifest.version} has no bases"
        raise IntegrityError(msg)
    return artifacts.get(manifest.bases.sha256)


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


def _state(
    job: AggregationJob, optimizer: ServerOptimizer, size: int, private: PrivateStore
) -> tuple[State, Wide, Wide]:
    """The optimizer's state, the residual of the downlink, and the average of the sums: rows in this order."""
    first = optimizer.init(size)
    vectors, further = len(first), (keeps_residual(job.downlink), job.summed is not None)
    first = np.vstack([first, *(np.zeros(size) for each in further if each)])
    if job.optimizer_state is not None and first.size:
        first = state_from_bytes(private.state(job.optimizer_state), job.strategy.name, first)
    rows = iter(first[vectors:])
    residual, average = (next(rows) if each else np.zeros(size) for each in further)
    return first[:vectors], residual, average
