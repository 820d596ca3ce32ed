"""The worker's jobs: aggregate stored reports into stored weights, and measure versions.

It reads and writes the data for :mod:`nightjar.coordinator.learning.fedavg`, with one report in memory at a time. There
is one function for each kind of mean: plain, noised, and of a secure sum. A report that proves undecodable
(:mod:`nightjar.coordinator.rounds.report_checks`) is left out of the mean, and its device is named in the result. The
caller passes in the measuring function, because that needs TensorFlow and this module does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from nightjar.coordinator.engine.stored_reports import ReportReader, masked_updates, measured, read_report
from nightjar.coordinator.learning.device_metrics import Tally, merged
from nightjar.coordinator.learning.downlink import Base, earlier_steps, keeps_residual, publish, ways_to
from nightjar.coordinator.learning.fedavg import (
    Aggregate,
    Averaged,
    NextNorm,
    TooFewReadableError,
    federated_average,
    following_quantile,
)
from nightjar.coordinator.learning.privacy.adaptive_clipping import next_private_norm
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms, noised_mean
from nightjar.coordinator.learning.robust import aggregate_for
from nightjar.coordinator.learning.strategies import (
    ServerOptimizer,
    State,
    Weighting,
    Wide,
    optimizer_for,
    state_from_bytes,
    state_to_bytes,
)
from nightjar.coordinator.learning.summed import average_of_sum, first_bases, rank_for, unmasked_sum
from nightjar.coordinator.ports import BlobStore, PrivateStore
from nightjar.coordinator.records.jobs import (
    AggregationDone,
    AggregationJob,
    EvaluationDone,
    EvaluationJob,
    FiguresDone,
    FiguresJob,
    Job,
    Result,
    SummedReports,
    TooFewReadable,
)
from nightjar.coordinator.tasks.settings import Privacy
from nightjar.coordinator.versions.announcement import KeyboardOutcome, verdict
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.host.primitives import LibraryPrimitives
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.packaged import packaged_program
from nightjar.models.padding import cleared, word_ids
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import IntegrityError, NightjarError, RemoteProtocolError
from nightjar.wire.parameters import Vector, weights_from_bytes, weights_to_bytes
from nightjar.wire.secure_sum.low_rank import from_bytes

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
        return FiguresDone(
            job.round, measured([read_report(job, stored, private) for stored in job.reports], trained=False)
        )
    manifest, base = _version(job.manifest, artifacts)
    match job:
        case AggregationJob():
            done = _aggregate(job, manifest, base, artifacts, private)
            if job.evaluation is None or isinstance(done, TooFewReadable):
                return done
            following = weights_from_bytes(artifacts.get(done.weights), manifest.layout)
            metrics = measure(manifest, following, job.evaluation)
            return msgspec.structs.replace(done, metrics=metrics)
        case EvaluationJob(version, _, evaluation):
            return EvaluationDone(version, measure(manifest, base.weights, evaluation))


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """What an average starts from.

    Attributes:
        weights: (n,) float32, of the base version.
        state: of the server optimizer.
        residual: (n,) float64, what the last published version lacks.
        average: (n,) float64, average of the mean updates so far, for sums.
        rng: draws the next bases, and what rounding needs.
    """

    manifest: Manifest
    weights: Vector
    optimizer: ServerOptimizer
    state: State
    residual: Wide
    average: Wide
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """What averaging made.

    Attributes:
        federated: what the devices of the mean measured.
        average: (n,) float32, average of the mean updates so far; None if it is not kept.
        bases: what the devices of the next sum are sent; None if there is none.
    """

    averaged: Averaged
    federated: Tally
    average: Vector | None = None
    bases: bytes | None = None


def _average(job: AggregationJob, start: _Start, artifacts: BlobStore, private: PrivateStore) -> _Made:
    """Average the reports of a round.

    Raises:
        TooFewReadableError: too few reports can be decoded.
    """
    if job.summed is not None:
        return _average_sum(job, job.summed, start, artifacts, private)
    rule = _plain(job) if job.noise is None else _noised(job, job.noise)
    reports = ReportReader(job, private)
    averaged = federated_average(
        start.weights,
        start.state,
        reports.updates(),
        codec_for(job.codec),
        start.manifest.layout,
        start.optimizer,
        rule.clip_norm,
        job.minimum,
        rule.aggregate,
        weighting=rule.weighting,
        next_norm=rule.next_norm,
    )
    if job.noise is not None or job.without_figures:
        return _Made(averaged, Tally())  # what a device counts has no noise
    return _Made(averaged, reports.figures(averaged.unreadable))


class _MeanRule(NamedTuple):
    """How single updates become one mean, as :mod:`nightjar.coordinator.learning.fedavg` has it."""

    clip_norm: float | None
    aggregate: Aggregate
    weighting: Weighting
    next_norm: NextNorm


def _plain(job: AggregationJob) -> _MeanRule:
    """The weighted mean of the updates, or what a robust rule makes of them."""
    generator = np.random.default_rng([job.seed, job.round, _NOISE])
    next_norm = following_quantile(job.strategy.clip_quantile)
    return _MeanRule(job.clip_norm, aggregate_for(job.strategy, generator), job.strategy.weighting, next_norm)


def _noised(job: AggregationJob, noise: NoiseTerms) -> _MeanRule:
    """The mean of the updates with noise, in which every device weighs the same."""
    clip_norm = noise.clip_norm if job.clip_norm is None else job.clip_norm
    aggregate = noised_mean(noise, job.step, clip_norm)
    return _MeanRule(clip_norm, aggregate, Weighting.EQUAL, partial(next_private_norm, noise, job.step))


def _average_sum(
    job: AggregationJob, summed: SummedReports, start: _Start, artifacts: BlobStore, private: PrivateStore
) -> _Made:
    """The mean that a secure sum gives; single devices are not seen."""
    made = average_of_sum(
        start.weights,
        start.state,
        start.average.astype(np.float32),
        unmasked_sum(summed.plan, masked_updates(job, private), LibraryPrimitives()),
        len(summed.plan.members),
        summed.order,
        start.manifest.layout,
        _bases(start.manifest, artifacts),
        start.optimizer,
        start.rng,
    )
    return _Made(made.averaged, Tally(), made.average, made.bases)


def _aggregate(
    job: AggregationJob, manifest: Manifest, base: Base, artifacts: BlobStore, private: PrivateStore
) -> AggregationDone | TooFewReadable:
    """Average the reports, and store the next weights."""
    start = _start(job, manifest, base.weights, private)
    try:
        made = _average(job, start, artifacts, private)
    except TooFewReadableError as error:
        return TooFewReadable(job.round, error.devices)
    layout, averaged = manifest.layout, made.averaged
    held, reference = _held_by_devices(job, made.federated, manifest, base, artifacts)
    wanted = _without_padding(averaged.weights + start.residual, manifest, artifacts)
    published = publish(reference, wanted, job.downlink, layout, start.rng)
    following = published.weights
    if not np.isfinite(following).all():
        msg = f"the weights after round {job.round} would not be finite; lower task.strategy.server_learning_rate"
        raise RemoteProtocolError(msg, code="not-finite")
    data = weights_to_bytes(following)
    further = (published.residual, made.average)
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
        bases=None if made.bases is None else _stored(made.bases, artifacts),
        federated=made.federated,
    )


def _without_padding(weights: Wide, manifest: Manifest, artifacts: BlobStore) -> Wide:
    """The weights of a padded program without noise in the rows that belong to no word, which devices clear."""
    packaged = packaged_program(manifest)
    if packaged is None or not packaged.padded:
        return weights
    return cleared(weights, manifest.layout, word_ids(artifacts.get(manifest.vocabulary.sha256)))


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
    return _version(job.announced.manifest, artifacts)


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
            _, base = _version(name, artifacts)
        except NightjarError:
            return
        yield base


def _version(name: str, artifacts: BlobStore) -> tuple[Manifest, Base]:
    """A stored version by the hash of its manifest: the manifest, and the weights."""
    manifest = Manifest.decode(artifacts.get(name))
    return manifest, Base(
        manifest.weights.sha256, weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
    )


def _start(job: AggregationJob, manifest: Manifest, weights: Vector, private: PrivateStore) -> _Start:
    """Read the optimizer's state, the residual of the downlink, and the average of the sums: rows in this order."""
    optimizer, size = optimizer_for(job.strategy, job.committed), manifest.layout.size
    first = optimizer.init(size)
    vectors, further = len(first), (keeps_residual(job.downlink), job.summed is not None)
    first = np.vstack([first, *(np.zeros(size) for each in further if each)])
    if job.optimizer_state is not None and first.size:
        first = state_from_bytes(private.state(job.optimizer_state), job.strategy.name, first)
    rows = iter(first[vectors:])
    residual, average = (next(rows) if each else np.zeros(size) for each in further)
    rng = np.random.default_rng([job.seed, job.round])
    return _Start(manifest, weights, optimizer, first[:vectors], residual, average, rng)
