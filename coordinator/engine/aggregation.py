"""One aggregation from stored reports to stored weights: what the worker does.

Reads reports one at a time in ascending order of devices, so memory holds one update and one sum. A report that turns
out to be undecodable (:mod:`coordinator.rounds.report_checks`) is left out and named. Measuring is handed in, because
it needs TensorFlow and this does not.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator

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
    Metrics,
    ReportFile,
    Result,
    TooFewReadable,
)
from coordinator.learning.aggregate import (
    Contribution,
    Wide,
    clipped,
    first_clip_norm,
    largest_weight,
    next_clip_norm,
    norm_of,
    weight_of,
    weighted_mean,
)
from coordinator.learning.device_metrics import tally
from coordinator.learning.downlink import Base, keeps_residual, publish, ways_to
from coordinator.learning.optimizers import ServerOptimizer, State, optimizer_for, state_from_bytes, state_to_bytes
from coordinator.ports import BlobStore, PrivateStore
from coordinator.tasks.settings import CodecConfig
from models.manifest import Artifact, Manifest
from wire import frame
from wire.codec import MASKED, Codec, codec_for
from wire.codec.masks import choose_mask, mask_from_bytes, mask_to_bytes
from wire.codec.sparsify import count_for
from wire.errors import IntegrityError, NightjarError, RemoteProtocolError
from wire.identifiers import DeviceId
from wire.messages import CodecChoice
from wire.parameters import ParameterLayout, Vector, weights_from_bytes, weights_to_bytes

RANDOM_SHARE = 0.2
"""Of a mask's coordinates, drawn by chance: what was never sent cannot show that it matters."""

Measure = Callable[[Manifest, Vector, str], Metrics]
"""(manifest, weights (n,) float32, path of the evaluation text) -> how good they are."""


def do_job(job: Job, artifacts: BlobStore, private: PrivateStore, measure: Measure) -> Result:
    """Do one job.

    Args:
        job: what.
        artifacts: what anybody may fetch.
        private: reports and optimizer states.
        measure: how good weights are.

    Raises:
        NightjarError: a blob is missing or damaged, or the result is not finite.
    """
    if isinstance(job, FiguresJob):
        return FiguresDone(job.round, tally(_figures(job, private), trained=False))
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
    unreadable: list[DeviceId] = []
    looked: list[frame.LocalEvaluation] = []
    hashes: list[str] = []
    codec = asked_codec(job.codec, manifest, artifacts)
    clip_norm = _first_clip_norm(job, codec, manifest.layout, private) if job.clip_norm is None else job.clip_norm
    norms: list[float] = []
    found = _contributions(job, codec, manifest.layout, private, unreadable, looked, hashes)
    try:
        mean = weighted_mean(clipped(found, math.inf if clip_norm is None else clip_norm, norms), manifest.layout.size)
    except _TooFewError:
        return TooFewReadable(job.round, tuple(unreadable))
    optimizer = optimizer_for(job.optimizer)
    state, residual = _state(job, optimizer, manifest.layout.size, private)
    target, state = optimizer.apply(weights, mean, state)
    rng = np.random.default_rng([job.seed, job.round])
    published = publish(weights, target + residual, job.downlink, manifest.layout, rng)
    following = published.weights
    if not np.isfinite(following).all():
        msg = f"the weights after round {job.round} would not be finite; lower task.server.learning_rate"
        raise RemoteProtocolError(msg, code="not-finite")
    data = weights_to_bytes(following)
    change = (following.astype(np.float64) - weights.astype(np.float64)).astype(np.float32)
    kept = state if published.residual is None else np.vstack([state, published.residual])
    ways = ways_to(published, Base(manifest.weights.sha256, weights), _earlier(job, artifacts), manifest.layout)
    for _, file in ways:
        artifacts.put(file)
    return AggregationDone(
        round=job.round,
        weights=artifacts.put(data),
        size_bytes=len(data),
        optimizer_state=private.keep_state(state_to_bytes(job.optimizer.name, kept)) if kept.size else None,
        update_norm=float(np.linalg.norm(change.astype(np.float64))),
        metrics=None,
        clip_norm=None if clip_norm is None else next_clip_norm(clip_norm, norms),
        unreadable=tuple(unreadable),
        transfers=tuple(transfer for transfer, _ in ways),
        mask=next_mask(job.codec, change, manifest.layout, rng, artifacts),
        federated=tally(looked),
        reports_sha256=hashlib.sha256("".join(hashes).encode()).hexdigest(),
    )


def next_mask(
    codec: CodecChoice,
    last_update: Vector | None,
    layout: ParameterLayout,
    rng: np.random.Generator,
    artifacts: BlobStore,
) -> Artifact | None:
    """Choose and store the coordinates that the next version's updates have; None if the codec needs none."""
    if codec.name not in MASKED:
        return None
    count = count_for(codec.density, layout.size)
    data = mask_to_bytes(choose_mask(last_update, count, RANDOM_SHARE, layout.size, rng), layout)
    artifacts.put(data)
    return Artifact.of(data)


def with_mask(manifest: Manifest, asked: CodecConfig, seed: int, artifacts: BlobStore) -> Manifest:
    """The manifest with random coordinates, if a task's codec needs some and no round has chosen any for it yet."""
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
    """The codec of updates against a version, with the version's mask if it needs one.

    Raises:
        NightjarError: the mask is missing or damaged.
    """
    if codec.name not in MASKED or manifest.mask is None:
        return codec_for(codec)
    return codec_for(codec, mask_from_bytes(artifacts.get(manifest.mask.sha256), manifest.layout))


def _earlier(job: AggregationJob, artifacts: BlobStore) -> Iterator[Base]:
    """Earlier versions, newest first; one whose files were removed ends the row."""
    for name in job.bases:
        try:
            manifest = Manifest.decode(artifacts.get(name))
            weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
        except NightjarError:
            return
        yield Base(manifest.weights.sha256, weights)


def _figures(job: FiguresJob, private: PrivateStore) -> Iterator[frame.LocalEvaluation]:
    for stored in job.reports:
        evaluation = _read(private.frame(job.round, stored.device, stored.attempt), stored, job.round).evaluation
        if evaluation is not None:
            yield evaluation


def _read(data: bytes, stored: ReportFile, round_number: int) -> frame.Report:
    """A frame that was looked into when it came: the disk is to blame for one that cannot be read any more."""
    whose = f"the stored report of {stored.device} in round {round_number}"
    try:
        report = frame.decode(data)
    except RemoteProtocolError as error:
        msg = f"{whose} is damaged: {error}"
        raise IntegrityError(msg) from error
    if not isinstance(report, frame.Report):
        msg = f"{whose} is a chunk"
        raise IntegrityError(msg)
    return report


def _contributions(
    job: AggregationJob,
    codec: Codec,
    layout: ParameterLayout,
    private: PrivateStore,
    unreadable: list[DeviceId],
    looked: list[frame.LocalEvaluation],
    hashes: list[str],
) -> Iterator[Contribution]:
    """Each update; by the way, whose cannot be decoded, what devices found of the base version, and frames' hashes."""
    cap = largest_weight(stored.num_examples for stored in job.reports)
    for stored in sorted(job.reports, key=lambda report: report.device):
        data = private.frame(job.round, stored.device, stored.attempt)
        report = _read(data, stored, job.round)
        hashes.append(hashlib.sha256(data).hexdigest())
        try:
            update = codec.decode(report.payload, layout)
        except RemoteProtocolError:
            unreadable.append(stored.device)
            continue
        if report.evaluation is not None:
            looked.append(report.evaluation)
        yield Contribution(stored.device, weight_of(stored.num_examples, cap), update)
    if unreadable and len(job.reports) - len(unreadable) < job.minimum:
        raise _TooFewError


class _TooFewError(Exception):
    """All reports were read, and without those that cannot be decoded there are fewer than the minimum."""


def _first_clip_norm(job: AggregationJob, codec: Codec, layout: ParameterLayout, private: PrivateStore) -> float | None:
    """The clip norm of a task's first cohort, whose updates are decoded twice: no former round says what is usual."""
    norms = []
    for stored in job.reports:
        report = _read(private.frame(job.round, stored.device, stored.attempt), stored, job.round)
        with contextlib.suppress(RemoteProtocolError):
            norms.append(norm_of(codec.decode(report.payload, layout)))
    return first_clip_norm(norms)


def _state(job: AggregationJob, optimizer: ServerOptimizer, size: int, private: PrivateStore) -> tuple[State, Wide]:
    """The optimizer's state, and the residual of the way down behind it."""
    first = optimizer.init(size)
    vectors = len(first)
    if keeps_residual(job.downlink):
        first = np.vstack([first, np.zeros(size)])
    if job.optimizer_state is not None and first.size:
        first = state_from_bytes(private.state(job.optimizer_state), job.optimizer.name, first)
    return first[:vectors], first[vectors] if len(first) > vectors else np.zeros(size)
