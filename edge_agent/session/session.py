"""One training session: from a model on disk to the bytes of a report.

The trainer decides where it runs: a real agent trains in a child process (:mod:`nightjar.edge_agent.shell.trainer`), a
simulated one in its own process. Everything a session needs is gathered beforehand as plain data, so both produce the
same bytes. A session reads the examples and changes nothing: the driver stores the result together with the state.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.personalisation import ENOUGH_WORDS, as_kept, best_share, change_to_bytes
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry, faults, noise_faults
from nightjar.edge_agent.core.results import Evaluation, TrainingStopped
from nightjar.edge_agent.core.stored import NewReport
from nightjar.edge_agent.core.training import TrainedUpdate, evaluate, train, try_out
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Artifacts, LoadProgram, Program, SessionDependencies, Trust
from nightjar.edge_agent.session.task import EvaluateKeyboard, Produced, SessionTask, Trainer
from nightjar.host.files import replace_file
from nightjar.host.system_integers import SystemIntegers
from nightjar.models.batches import Batches
from nightjar.models.signed_programs import UNSIGNED
from nightjar.models.task_types import task_type
from nightjar.wire.codec import codec_for
from nightjar.wire.codec.sparsify import count_for
from nightjar.wire.errors import ExamplesError, NightjarError, RemoteProtocolError
from nightjar.wire.frame import (
    MASKED_UPDATE,
    NO_UPDATE,
    KeyboardEvaluation,
    LocalEvaluation,
    Report,
    encode_report,
    publishes,
)
from nightjar.wire.identifiers import Sha256
from nightjar.wire.limits import Limits, outside
from nightjar.wire.messages import Assignment, DropoutCause, Work
from nightjar.wire.parameters import Vector
from nightjar.wire.secure_sum.low_rank import Bases, from_bytes
from nightjar.wire.secure_sum.order import SumOrder, binding_faults, contribution, values_of

HELD_AT_LEAST = 4
"""Copies of the weights that a training holds at least: weights, anchor, update, and the file."""


def prepare(
    artifacts: Artifacts,
    trust: Trust,
    limits: Limits,
    assignment: Assignment,
    payload: bytes,
    should_stop: Callable[[], bool],
    ledger: Callable[[], Sequence[LedgerEntry]] = tuple,
    memory_bytes: int = sys.maxsize,
) -> Model:
    """Download the model of an assignment, if the assignment is to be obeyed.

    ``payload`` is the assignment as received, ``ledger`` returns what this device has spent of its privacy, and
    ``memory_bytes`` is the most private memory of a training.

    Raises:
        ConfigError: this device has no plug-in for the model's task type.
        RemoteProtocolError: the assignment is not trusted or outside our limits; the manifest has another version than
            the assignment names; the data does not match its hash or manifest; or the model needs a newer agent.
        UnavailableError: the assignment cannot be checked or the model cannot be fetched now.
    """
    trust.check("assignment", payload)
    order, epsilon = assignment.secure_sum, None if assignment.privacy is None else assignment.privacy.epsilon
    threshold = None if order is None else order.threshold
    beyond = outside(limits, assignment.minimum, assignment.codec, assignment.plan.max_steps, epsilon, threshold)
    _refuse_any(beyond or binding_faults(order) or faults(ledger(), assignment, limits), trust)
    model = fetched(artifacts, trust, assignment.manifest, should_stop)
    if model.manifest.version != assignment.version:
        msg = f"expected the manifest of version {assignment.version}, got that of {model.manifest.version}"
        raise RemoteProtocolError(msg, code="manifest")
    task_type(model.manifest.task_type)
    needed = max(model.manifest.memory_bytes, HELD_AT_LEAST * 4 * model.manifest.layout.size)
    if needed > memory_bytes:
        _refuse_any([f"memory: expected a training in {memory_bytes >> 20} MB, it needs {needed >> 20}"], trust)
    if order is not None:
        layout = model.manifest.layout
        values = values_of(order, layout)
        _refuse_any(noise_faults(assignment, values), trust)
        if limits.density < 1 and values > count_for(limits.density, layout.size):
            share = values / layout.size
            fault = f"secure_sum.rank: expected a share of at most {limits.density:g} of the model, got {share:.2g}"
            _refuse_any([fault], trust)
        _bases(order, model)
    return model


def fetched(artifacts: Artifacts, trust: Trust, manifest: Sha256, should_stop: Callable[[], bool]) -> Model:
    """Download a model; a program that this device must not compute counts as a refused order. Raises as ``fetch``."""
    try:
        return artifacts.fetch(manifest, should_stop)
    except RemoteProtocolError as error:
        if error.code == UNSIGNED:
            trust.refused(str(error))
        raise


def _refuse_any(faults: Sequence[str], trust: Trust) -> None:
    if faults:
        why = f"outside the limits of this device: {'; '.join(faults)}"
        trust.refused(why)
        raise RemoteProtocolError(why, code="limits")


def run_session(
    desk: SessionDependencies,
    assignment: Assignment,
    model: Model,
    generator: np.random.Generator,
    should_stop: Callable[[], bool],
) -> Produced | TrainingStopped:
    """Gather the inputs of an assignment, and run the session.

    ``generator`` draws the seed of the session; ``should_stop`` is polled between batches.

    Raises:
        RemoteProtocolError: the program cannot be run, or the assignment asks for a codec that we do not know.
        UnavailableError: the training process could not be started, or died.
    """
    seed = int(generator.integers(2**63))
    personal = model.personal_weights if desk.personalise else None
    announced = desk.announced() if _asks_for_keyboard(assignment) else None
    task = SessionTask(assignment, model, desk.examples.source(), seed, personal, announced)
    done = desk.train(task, should_stop)
    if isinstance(done, TrainingStopped) and done.advice:
        import structlog  # takes memory, and the training process imports this module, too

        structlog.get_logger().warning("examples_cannot_be_used", why=done.advice)
    if personal is not None and should_stop():
        # Perhaps everything is being deleted, and these weights were written after that. Otherwise the next session
        # makes them again.
        personal.unlink(missing_ok=True)
    return done


def _asks_for_keyboard(assignment: Assignment) -> bool:
    """Whether the coordinator takes a keyboard evaluation. It is in no secure sum and not covered by an epsilon."""
    return assignment.plan.keystrokes and assignment.secure_sum is None and assignment.privacy is None


def no_keyboard(_task: SessionTask, _should_stop: Callable[[], bool], _now_s: Callable[[], float]) -> None:
    """Counts nothing. An :data:`EvaluateKeyboard`."""


def in_this_process(
    load_program: LoadProgram, now_s: Callable[[], float], evaluate_keyboard: EvaluateKeyboard = no_keyboard
) -> Trainer:
    """A trainer that runs in the calling process; ``now_s`` is a clock that does not jump."""
    return lambda task, should_stop: train_and_encode(task, load_program, should_stop, now_s, evaluate_keyboard)


def train_and_encode(
    task: SessionTask,
    load_program: LoadProgram,
    should_stop: Callable[[], bool],
    now_s: Callable[[], float],
    evaluate_keyboard: EvaluateKeyboard = no_keyboard,
) -> Produced | TrainingStopped:
    """Train according to the assignment and encode the update once; or only evaluate, if the assignment says so.

    The keyboard is evaluated last, when the memory of the training is free again.

    Raises:
        RemoteProtocolError: the program cannot be run, or the assignment asks for a codec that we do not know.
    """
    assignment, model = task.assignment, task.model
    manifest, generator = model.manifest, np.random.default_rng(task.seed)
    codec = codec_for(assignment.codec)
    kind, vocabulary = task_type(manifest.task_type), model.vocabulary.read_bytes()
    try:
        batches, tried = kind.split(task.source, manifest, vocabulary, assignment.plan.evaluation_share)
        if tried.counted_targets < ENOUGH_WORDS:
            batches, tried = kind.split(task.source, manifest, vocabulary, 0.0)
    except ExamplesError as error:
        return TrainingStopped(DropoutCause.BAD_EXAMPLES, error.problem, str(error))
    keyboard_of = partial(_keyboard, task, lambda: evaluate_keyboard(task, should_stop, now_s))
    if assignment.work is Work.EVALUATE:
        return _evaluate_only(task, load_program, tried, should_stop, now_s, keyboard_of)
    program = load_program(model)
    before = evaluate(program, tried)
    trained = train(program, batches, assignment.plan, generator, should_stop, now_s)
    if isinstance(trained, TrainingStopped):
        return trained
    evaluation, share = None, 0.0
    if before.counted:
        evaluation = _compare(before, evaluate(program, tried))
        if task.personal is not None:
            share = _keep_personal(program, task.personal, trained.delta, tried, before)
    # The interpreter holds half of a session's memory; the codec needs it next.
    del program
    if assignment.secure_sum is not None:
        return _contributed(task, assignment.secure_sum, trained, generator)
    # First: who must stop while the keyboard is evaluated has nothing left to do but to send.
    payload = codec.encode(trained.delta, manifest.layout, generator)
    keyboard, fault = keyboard_of(evaluation)
    report = _new_report(
        task,
        codec.wire_id,
        payload,
        num_examples=trained.num_examples,
        steps=trained.steps,
        loss=trained.loss,
        seconds=trained.seconds,
        evaluation=evaluation,
        keyboard=keyboard,
    )
    return Produced(
        report,
        trained.num_examples,
        trained.steps,
        trained.loss,
        trained.seconds,
        evaluation,
        share,
        keyboard=keyboard,
        keyboard_fault=fault,
    )


def _contributed(
    task: SessionTask, order: SumOrder, trained: TrainedUpdate, generator: np.random.Generator
) -> Produced:
    """A contribution to a secure sum, and the report that it goes into, whose figures say nothing."""
    bases, spread = _bases(order, task.model)
    layout = task.model.manifest.layout
    noise = SystemIntegers()
    words = contribution(trained.delta, trained.num_examples, order, layout, bases, spread, generator, noise)
    report = _new_report(task, MASKED_UPDATE)
    return Produced(report, trained.num_examples, trained.steps, trained.loss, trained.seconds, words=words)


def _evaluate_only(
    task: SessionTask,
    load_program: LoadProgram,
    tried: Batches,
    should_stop: Callable[[], bool],
    now_s: Callable[[], float],
    keyboard_of: Callable[[LocalEvaluation], tuple[KeyboardEvaluation | None, str]],
) -> Produced | TrainingStopped:
    """Evaluate the base model on held-out messages; the report carries no update."""
    if not tried.counted_targets:
        return TrainingStopped(
            DropoutCause.NO_EXAMPLES, f"fewer than {ENOUGH_WORDS} held-out targets to try the model on"
        )
    started_s = now_s()
    outcome = try_out(load_program(task.model), tried, should_stop)
    if isinstance(outcome, TrainingStopped):
        return outcome
    evaluation, seconds = _compare(outcome, outcome), now_s() - started_s
    if evaluation is None:
        return TrainingStopped(DropoutCause.DIVERGED, "the loss of the model was not finite")
    keyboard, fault = keyboard_of(evaluation)
    report = _new_report(
        task,
        NO_UPDATE,
        num_examples=tried.targets,
        loss=evaluation.loss_before,
        seconds=seconds,
        evaluation=evaluation,
        keyboard=keyboard,
    )
    return Produced(
        report, tried.targets, 0, evaluation.loss_before, seconds, evaluation, keyboard=keyboard, keyboard_fault=fault
    )


def _keyboard(
    task: SessionTask, evaluate: Callable[[], KeyboardEvaluation | None], evaluation: LocalEvaluation | None
) -> tuple[KeyboardEvaluation | None, str]:
    """What the keyboard saves; or None, and what is wrong. The training was too long to lose it for that."""
    if evaluation is None or task.announced is None:
        return None, ""
    try:
        return evaluate(), ""
    except NightjarError as error:
        return None, str(error)
    except MemoryError:
        return None, "memory: the keyboard needs more than the training"


def _new_report(
    task: SessionTask,
    codec: int,
    payload: bytes = b"",
    *,
    num_examples: int = 0,
    steps: int = 0,
    loss: float = 0.0,
    seconds: float = 0.0,
    evaluation: LocalEvaluation | None = None,
    keyboard: KeyboardEvaluation | None = None,
) -> NewReport:
    """A report of the session in its frame; under a promise of differential privacy its figures say nothing."""
    assignment, model = task.assignment, task.model
    if assignment.privacy is not None:
        num_examples, steps, loss, seconds = min(num_examples, 1), 0, 0.0, 0.0
        evaluation = keyboard = None
    frame = encode_report(
        Report(
            round=assignment.round,
            attempt=assignment.attempt,
            codec=codec,
            layout=model.manifest.layout.fingerprint,
            version=model.manifest.version,
            num_examples=num_examples,
            steps=steps,
            loss=loss,
            seconds=seconds,
            payload=payload,
            evaluation=evaluation,
            keyboard=keyboard,
        )
    )
    parcel = Parcel(assignment.round, assignment.attempt, len(publishes(frame, assignment.round, assignment.attempt)))
    return NewReport(parcel, frame)


def _compare(before: Evaluation, after: Evaluation) -> LocalEvaluation | None:
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
    """Keep the best personal model, or none; return its share of the update."""
    program.reset()
    base = program.save()

    def with_share(share: float) -> Evaluation:
        program.restore(base + as_kept(np.float32(share) * delta))
        return evaluate(program, tried)

    chosen = best_share(with_share, before)
    if chosen:
        replace_file(path, change_to_bytes(np.float32(chosen) * delta))
    else:
        path.unlink(missing_ok=True)
    return chosen


def _bases(order: SumOrder, model: Model) -> tuple[tuple[Bases, ...], Vector]:
    """The bases and the spread of a secure sum; the hash of the model's manifest, which is signed, covers them."""
    if model.bases is None:
        msg = "the assignment asks for a secure sum, and the manifest of its model names no bases"
        raise RemoteProtocolError(msg, code="bases")
    return from_bytes(model.bases.read_bytes(), model.manifest.layout, order.rank)
