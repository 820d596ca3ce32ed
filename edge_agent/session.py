"""One training session: from a model on disk to the bytes of a report.

Where it runs is the trainer's affair: a real agent trains in a process that exits (:mod:`edge_agent.shell.trainer`), a
simulated one in its own. Whatever a session needs is gathered beforehand and is plain data, so that both give the same
bytes. Reads the examples and the residual, changes neither: what comes of it is stored by the driver, together with the
state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edge_agent.core.outbox import Parcel
from edge_agent.core.personalisation import ENOUGH_WORDS, SHARES, better, held_out
from edge_agent.core.training import TrainingStopped, evaluate, train, try_out
from edge_agent.ports import Artifacts, Evaluation, ExampleStore, LoadProgram, Model, NewReport, Program, Trust
from host.files import replace_file
from models.batches import Batches, pack
from models.vocabulary import Vocabulary, words
from wire.codec import Sparse, codec_for, with_error_feedback
from wire.codec.masks import mask_from_bytes
from wire.errors import RemoteProtocolError
from wire.frame import NO_UPDATE, LocalEvaluation, Report, encode_report, publishes
from wire.limits import Limits, outside
from wire.messages import Assignment, DropoutCause, Work
from wire.parameters import Vector, weights_to_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Produced:
    """A report that is ready to be stored.

    Attributes:
        report: bytes and next residual.
        num_examples: targets trained on, one pass.
        steps: optimizer steps.
        loss: mean per target over the last epoch, nats.
        seconds: time spent in training.
        evaluation: what was found on held-out messages, if the plan asks for it and there are enough.
        personal_share: how much of the update the personal model has that was kept; 0 if none was.
    """

    report: NewReport
    num_examples: int
    steps: int
    loss: float
    seconds: float
    evaluation: LocalEvaluation | None = None
    personal_share: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SessionTask:
    """All that a session needs.

    Attributes:
        assignment: what was asked for.
        model: the base, already on the device.
        texts: the messages.
        residual: gives the residual that was adopted in this task, if there is one; asked once the training is over,
            because a residual is as large as the model.
        seed: of the generator that shuffles, and rounds in the codec.
        personal: where a personal model is kept, if it is better; None keeps none.
    """

    assignment: Assignment
    model: Model
    texts: Sequence[str]
    residual: Callable[[], Vector | None]
    seed: int
    personal: Path | None = None


Trainer = Callable[[SessionTask, Callable[[], bool]], Produced | TrainingStopped]
"""Does a session, polling ``should_stop`` between batches. Raises what :func:`train_and_encode` raises."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What every session of this agent works with.

    Attributes:
        examples: the messages.
        residual: the adopted residual, if any, by what it is bound to (:func:`residual_of`).
        train: does the work.
        personalise: keep a personal model where it is better.
    """

    examples: ExampleStore
    residual: Callable[[str], Vector | None]
    train: Trainer
    personalise: bool = False


def prepare(
    artifacts: Artifacts,
    trust: Trust,
    limits: Limits,
    assignment: Assignment,
    payload: bytes,
    should_stop: Callable[[], bool],
) -> Model:
    """Bring the model of an assignment onto the device, if the assignment is to be obeyed.

    Args:
        artifacts: the models here, and where they come from.
        trust: whom we obey.
        limits: what this device takes part in.
        assignment: what was asked for.
        payload: the same as it came.
        should_stop: polled while fetching.

    Raises:
        RemoteProtocolError: the assignment is outside our limits, the manifest is of another version than it says, or
            as ``Trust.check`` and ``Artifacts.fetch``.
        UnavailableError: as ``Artifacts.fetch``.
    """
    trust.check("assignment", payload)
    _refuse_any(outside(limits, assignment.minimum, assignment.codec, assignment.plan.max_steps), trust)
    model = artifacts.fetch(assignment.manifest, should_stop)
    if model.manifest.version != assignment.version:
        msg = f"expected the manifest of version {assignment.version}, got that of {model.manifest.version}"
        raise RemoteProtocolError(msg, code="manifest")
    mask = _mask(assignment, model)
    if mask is not None and mask.size > limits.density * model.manifest.layout.size:
        _refuse_any([f"mask: expected a share of at most {limits.density:g} of the model, got {mask.size}"], trust)
    return model


def _refuse_any(faults: Sequence[str], trust: Trust) -> None:
    if faults:
        why = f"outside the limits of this device: {'; '.join(faults)}"
        trust.refused(why)
        raise RemoteProtocolError(why, code="limits")


def batches_of(texts: Sequence[str], vocabulary: Vocabulary, batch_rows: int, sequence_length: int) -> Batches:
    """Typed messages as batches for the program.

    Args:
        texts: raw messages.
        vocabulary: gives the ids.
        batch_rows: B.
        sequence_length: T.
    """
    return pack([vocabulary.encode(words(text)) for text in texts], batch_rows, sequence_length)


def run_session(
    desk: Desk,
    assignment: Assignment,
    model: Model,
    generator: np.random.Generator,
    should_stop: Callable[[], bool],
) -> Produced | TrainingStopped:
    """Gather what the assignment needs, and have it done.

    Args:
        desk: what to work with.
        assignment: what was asked for.
        model: the base, already on the device.
        generator: gives the seed of the session.
        should_stop: polled between batches.

    Raises:
        RemoteProtocolError: the program cannot be run, or the assignment asks for a codec that we do not know.
        UnavailableError: the trainer cannot work.
    """
    residual = partial(desk.residual, residual_of(assignment, model))
    seed = int(generator.integers(2**63))
    personal = personal_weights(model) if desk.personalise else None
    task = SessionTask(assignment, model, desk.examples.texts(), residual, seed, personal)
    done = desk.train(task, should_stop)
    if personal is not None and should_stop():
        # Perhaps because everything is being deleted: whatever was kept came after that, or is kept again next time.
        personal.unlink(missing_ok=True)
    return done


def residual_of(assignment: Assignment, model: Model) -> str:
    """What the residual of a session is bound to: what was left out of one task's updates is no other task's affair."""
    return f"{model.manifest.layout.fingerprint} {assignment.task}"


def personal_weights(model: Model) -> Path:
    """Where the personal weights of a version lie, if there are some: beside its own, and gone when those are."""
    return model.weights.with_name(f"{model.sha256}.personal")


def in_this_process(load_program: LoadProgram, now_s: Callable[[], float]) -> Trainer:
    """A trainer that works where it is called.

    Args:
        load_program: loads a model for training.
        now_s: seconds on a clock that does not jump.
    """
    return lambda task, should_stop: train_and_encode(task, load_program, should_stop, now_s)


def train_and_encode(
    task: SessionTask, load_program: LoadProgram, should_stop: Callable[[], bool], now_s: Callable[[], float]
) -> Produced | TrainingStopped:
    """Train as the assignment says, and encode the update once; or only try the model, if that is what it says.

    Args:
        task: what to do.
        load_program: loads a model for training.
        should_stop: polled between batches.
        now_s: seconds on a clock that does not jump.

    Raises:
        RemoteProtocolError: the program cannot be run, or the assignment asks for a codec that we do not know.
    """
    assignment, model = task.assignment, task.model
    manifest, generator = model.manifest, np.random.default_rng(task.seed)
    codec = codec_for(assignment.codec, _mask(assignment, model))
    vocabulary = Vocabulary.from_bytes(model.vocabulary.read_bytes())
    shape = (manifest.batch_rows, manifest.sequence_length)
    texts, kept = held_out(task.texts, assignment.plan.evaluation_share)
    tried = batches_of(kept, vocabulary, *shape)
    if tried.counted_targets < ENOUGH_WORDS:
        texts, tried = list(task.texts), batches_of([], vocabulary, *shape)
    batches = batches_of(texts, vocabulary, *shape)
    if assignment.work is Work.EVALUATE:
        return _try_only(task, load_program, tried, should_stop, now_s)
    program = load_program(model)
    before = evaluate(program, tried)
    trained = train(program, batches, assignment.plan, generator, should_stop, now_s)
    if isinstance(trained, TrainingStopped):
        return trained
    looked, share = None, 0.0
    if before.counted:
        looked = _looked(before, evaluate(program, tried))
        if task.personal is not None:
            share = _keep_personal(program, task.personal, trained.delta, tried, before)
    # Half of the memory of a session is the interpreter's; the codec needs the other half.
    del program

    layout = manifest.layout
    following: Vector | None = None
    carried: Sparse | None = None
    if assignment.codec.error_feedback:
        feedback = with_error_feedback(codec)
        adopted = task.residual()
        residual = feedback.init(layout) if adopted is None else adopted
        payload, following = feedback.encode(trained.delta, residual, layout, generator)
        difference = trained.delta + residual - following
        indices = np.flatnonzero(difference)
        carried = Sparse(layout.size, indices, difference[indices])
    else:
        payload = codec.encode(trained.delta, layout, generator)
    frame = encode_report(
        Report(
            round=assignment.round,
            attempt=assignment.attempt,
            codec=codec.wire_id,
            layout=layout.fingerprint,
            version=manifest.version,
            num_examples=trained.num_examples,
            steps=trained.steps,
            loss=trained.loss,
            seconds=trained.seconds,
            payload=payload,
            evaluation=looked,
        )
    )
    parcel = Parcel(assignment.round, assignment.attempt, len(publishes(frame, assignment.round, assignment.attempt)))
    report = NewReport(parcel, frame, residual_of(assignment, model), following, carried)
    return Produced(report, trained.num_examples, trained.steps, trained.loss, trained.seconds, looked, share)


def _try_only(
    task: SessionTask,
    load_program: LoadProgram,
    tried: Batches,
    should_stop: Callable[[], bool],
    now_s: Callable[[], float],
) -> Produced | TrainingStopped:
    """Figures of the base on held-out messages, in a report without an update."""
    assignment, model = task.assignment, task.model
    if not tried.counted_targets:
        return TrainingStopped(
            DropoutCause.NO_EXAMPLES, f"fewer than {ENOUGH_WORDS} held-out words to try the model on"
        )
    started_s = now_s()
    found = try_out(load_program(model), tried, should_stop)
    if isinstance(found, TrainingStopped):
        return found
    looked, seconds = _looked(found, found), now_s() - started_s
    if looked is None:
        return TrainingStopped(DropoutCause.DIVERGED, "the loss of the model was not finite")
    frame = encode_report(
        Report(
            round=assignment.round,
            attempt=assignment.attempt,
            codec=NO_UPDATE,
            layout=model.manifest.layout.fingerprint,
            version=model.manifest.version,
            num_examples=tried.targets,
            steps=0,
            loss=looked.loss_before,
            seconds=seconds,
            payload=b"",
            evaluation=looked,
        )
    )
    report = NewReport(Parcel(assignment.round, assignment.attempt, 1), frame, residual_of(assignment, model), None)
    return Produced(report, tried.targets, 0, looked.loss_before, seconds, looked)


def _looked(before: Evaluation, after: Evaluation) -> LocalEvaluation | None:
    loss_before, loss_after = before.loss_sum / before.targets, after.loss_sum / after.targets
    if not (math.isfinite(loss_before) and math.isfinite(loss_after)):
        return None
    return LocalEvaluation(
        counted=int(before.counted),
        top1_before=int(before.top1),
        top3_before=int(before.top3),
        top1_after=int(after.top1),
        top3_after=int(after.top3),
        loss_before=loss_before,
        loss_after=loss_after,
    )


def _keep_personal(program: Program, path: Path, delta: Vector, tried: Batches, before: Evaluation) -> float:
    """Keep the best personal model, or none: how much of the update it has."""
    program.reset()
    base = program.save()
    best, chosen = before, 0.0
    for share in SHARES:
        program.restore(base + np.float32(share) * delta)
        found = evaluate(program, tried)
        if better(found, before) and found.loss_sum < best.loss_sum:
            best, chosen = found, share
    if chosen:
        replace_file(path, weights_to_bytes(base + np.float32(chosen) * delta))
    else:
        path.unlink(missing_ok=True)
    return chosen


def _mask(assignment: Assignment, model: Model) -> npt.NDArray[np.int64] | None:
    """The coordinates that the assignment names: those of the model's manifest, whose hash vouches for them."""
    if assignment.codec.mask is None:
        return None
    if model.mask is None or model.mask.name != assignment.codec.mask:
        msg = f"the assignment names mask {assignment.codec.mask[:12]}, the manifest of its model does not"
        raise RemoteProtocolError(msg, code="mask")
    return mask_from_bytes(model.mask.read_bytes(), model.manifest.layout)
