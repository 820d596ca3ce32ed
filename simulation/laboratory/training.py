"""One federated training: the loop over rounds, with a checkpoint after each measurement.

A round is the product's: devices of a uniformly drawn cohort train and encode, and
:func:`nightjar.coordinator.learning.fedavg.federated_average` decodes, clips, averages and applies the strategy. With
secure sums, the device's :func:`nightjar.wire.secure_sum.order.contribution` and
:mod:`nightjar.coordinator.learning.summed` do, without masks, which change nothing in a sum. The same experiment and
seed give the same curve, bit for bit, whatever the executor, and whether or not the run was interrupted.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from nightjar.coordinator.learning.downlink import Base, publish, ways_to
from nightjar.coordinator.learning.fedavg import (
    Aggregate,
    Averaged,
    ClientUpdate,
    federated_average,
    following_quantile,
)
from nightjar.coordinator.learning.privacy.adaptive_clipping import next_private_norm
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms, noised_mean
from nightjar.coordinator.learning.robust import aggregate_for
from nightjar.coordinator.learning.staleness import Staleness, parse_staleness
from nightjar.coordinator.learning.strategies import Weighting, last_average, optimizer_for
from nightjar.coordinator.learning.summed import average_of_sum, first_bases, sum_order
from nightjar.coordinator.tasks.settings import Privacy
from nightjar.coordinator.tasks.validation import noise_for
from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.edge_agent.ports import Program
from nightjar.edge_agent.shell.tflite import TfliteProgram
from nightjar.host.files import replace_file
from nightjar.models.batches import Batches, Ids, pack
from nightjar.models.configurations import configuration
from nightjar.models.corpora import Corpus
from nightjar.models.export import export_program
from nightjar.models.initial import initial_weights
from nightjar.models.keyboard import batches_of, held_out
from nightjar.models.learning_rate import falling_rate
from nightjar.models.shipped import Shipped
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.simulation.laboratory.checkpoint import Point, State, opened, restored, store
from nightjar.simulation.laboratory.clients import Device, Reported, as_read, remove_old
from nightjar.simulation.laboratory.clock import PlannedVersion
from nightjar.simulation.laboratory.cohorts import device_of, plan_of
from nightjar.simulation.laboratory.executor import Executor, load
from nightjar.simulation.laboratory.experiment import Experiment
from nightjar.simulation.laboratory.gate import Gate, after_round
from nightjar.simulation.laboratory.people import People, divide
from nightjar.simulation.laboratory.pretrained import pretrained
from nightjar.simulation.warm_start import evaluate, seeded
from nightjar.wire.codec import Sparse, codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.frame import MASKED_UPDATE, KeyboardEvaluation, Report, encode_report
from nightjar.wire.parameters import ParameterLayout, Vector
from nightjar.wire.secure_sum.low_rank import from_bytes
from nightjar.wire.secure_sum.masks import packed_bytes
from nightjar.wire.secure_sum.messages import MaskedUpdate, encode
from nightjar.wire.secure_sum.order import SumOrder, contribution, terms_of
from nightjar.wire.secure_sum.primitives import SIGNATURE_BYTES
from nightjar.wire.secure_sum.terms import Terms

Compare = Callable[[Sequence[int], tuple[int, Vector], tuple[int, Vector]], Mapping[int, KeyboardEvaluation]]
"""What the devices of people measure of the version that they received and of the announced one, each its number and
its weights (n,) float32."""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTraining:
    """What a run needs before its first round."""

    experiment: Experiment
    seed: int
    folder: Path
    people: People
    vocabulary: Vocabulary  # of the training text, or of the start
    layout: ParameterLayout
    program: Path  # path of the device program
    batches: tuple[Batches, ...]  # the examples of each person who trains
    measured: Batches  # the measured messages
    others: Batches  # the messages of the people held out
    first: Shipped | None  # the pre-trained start, if the experiment has one

    def device_maker(self) -> partial[Device]:
        """Makes a device from the path of the program, for instance in another process or on another machine."""
        experiment = self.experiment
        return partial(
            load,
            layout=self.layout,
            batches=self.batches,
            plan=experiment.training_plan(),
            codec=experiment.sent_as(),
            seed=self.seed,
            personal=experiment.personal,
        )

    def load_program(self) -> TfliteProgram:
        """The device program, with weights that are zero."""
        return TfliteProgram(self.program.read_bytes(), np.zeros(self.layout.size, np.float32), self.layout)


def prepare(experiment: Experiment, corpus: Corpus, seed: int, folder: Path, programs: Path) -> PreparedTraining:
    """Split the corpus, and make the program and a pre-trained start, from the cache ``programs`` if they are there.

    Raises:
        CorpusError: too few people have enough messages.
        ConfigError: the folder holds another experiment, or a start cannot be made here.
        UnavailableError: the program or the folder could not be made.
    """
    people = divide(corpus, experiment.split, experiment.evaluation, seed, experiment.people_at_once())
    shape = configuration(experiment.model)
    first = None
    if experiment.start.pretrained:
        others = [user for user in corpus.users if user not in people.public_people]
        first = pretrained(people.public_people, others, shape.name, programs.parent / "pretrained")
        vocabulary = first.vocabulary(shape.name)
    else:
        vocabulary = Vocabulary.build((m for messages in people.train for m in messages), shape.max_vocabulary)
    rows, length = shape.batch_rows, shape.sequence_length
    share = experiment.plan.evaluation_share  # what devices hold back for their own figures, they do not train on
    folder = opened(folder, experiment, seed)
    program = folder / "program.tflite"
    replace_file(program, export_program(shape, vocabulary.size, programs))
    return PreparedTraining(
        experiment,
        seed,
        folder,
        people,
        vocabulary,
        shape.layout(vocabulary.size),
        program,
        tuple(batches_of(held_out(messages, share)[0], vocabulary, rows, length) for messages in people.train),
        batches_of(people.measured, vocabulary, rows, length),
        batches_of(people.held_out, vocabulary, rows, length),
        first,
    )


def run(
    prepared: PreparedTraining,
    executor: Executor,
    progress: Callable[[int, Point], None] = lambda _round, _point: None,
    measured_so_far: Callable[[Sequence[Point]], None] = lambda _curve: None,
    aggregate: Callable[[int], Aggregate] | None = None,
    compare: Compare | None = None,
) -> list[Point]:
    """Train, from the last checkpoint on if there is one; returns the whole curve.

    ``progress`` is told after each round its number and the newest point, ``measured_so_far`` the curve at the
    beginning and after each measurement. ``aggregate`` gives for a round's number how its updates are combined; None
    takes the strategy's way. ``compare`` lets devices measure their keyboards; with it versions are announced, the
    curve is that of the announced ones, and a run that is paused keeps the last of them.

    Raises:
        UnavailableError: a device could not train, or the model is not finite any more; what was reached is kept.
    """
    experiment, folder = prepared.experiment, prepared.folder
    choice, layout = experiment.strategy.choice(), prepared.layout
    private, summed = experiment.privacy.noised, experiment.privacy.summed
    timed, staleness = experiment.time.training_s > 0, parse_staleness(experiment.staleness)
    referee = prepared.load_program()
    state = restored(folder)
    if state is None:
        start = start_weights(prepared, referee)
        point = measure(prepared, referee, start)
        if timed:
            point = msgspec.structs.replace(point, hours=0.0, device_seconds=0.0, wasted_seconds=0.0)
        state = State(
            weights=start,
            optimizer=optimizer_for(choice).init(layout.size),
            clip_norm=experiment.dp.clip_norm if private else None,
            residual=np.zeros(layout.size),
            mean=np.zeros(layout.size),
            summed=np.zeros(layout.size if summed else 0, np.float32),
            bases=first_bases(layout, seeded(prepared.seed, "bases", 1)) if summed else b"",
            losses=np.full(len(prepared.batches), np.nan),
            curve=(point,),
            older={},
        )
        if compare is not None:
            state = replace(state, gate=Gate(), announced=start, announced_optimizer=state.optimizer)
        store(folder, state)
    plan = plan_of(experiment, len(prepared.batches), prepared.seed)
    progress(state.curve[-1].round, state.curve[-1])
    measured_so_far(state.curve)
    took_part: set[int] = set()
    hours, worked_s, wasted_s = (value or 0.0 for value in state.curve[-1].time_spent())
    for number in range(state.curve[-1].round + 1, experiment.rounds + 1):
        if state.gate is not None and state.gate.paused:
            state = _idle(prepared, referee, state)
            measured_so_far(state.curve)
            break
        planned = plan(number, state.losses)
        hours += planned.hours
        worked_s, wasted_s = worked_s + planned.device_seconds, wasted_s + planned.wasted_seconds
        measured = number % experiment.evaluation.every == 0 or number == experiment.rounds
        held = {**state.older, number - 1: state.weights}
        reports = _trained(executor, planned, number, held, measured=measured)
        sent_bases = state.bases
        if summed:
            averaged, state = _from_sum(prepared, state, reports, number)
        else:
            sent = {device_of(each.person).encode(): each.update for each in reports}
            averaged = federated_average(
                state.weights,
                state.optimizer,
                _updates(reports, planned, number, staleness),
                as_read(sent, codec_for(experiment.codec.choice())),
                layout,
                optimizer_for(choice, number - 1),
                state.clip_norm,
                aggregate=aggregate(number) if aggregate else _aggregate(prepared, number, state.clip_norm),
                weighting=Weighting.EQUAL if private else choice.weighting,
                next_norm=(
                    partial(next_private_norm, _noise(prepared), number - 1)
                    if private
                    else following_quantile(choice.clip_quantile)
                ),
            )
        rounding = seeded(prepared.seed, "downlink", number)
        target = averaged.weights + state.residual
        published = publish(Base("", state.weights), target, experiment.downlink, layout, rounding)
        if not np.isfinite(published.weights).all():
            msg = f"the model is not finite after round {number}; {folder} keeps what was reached before"
            raise UnavailableError(msg)
        losses = state.losses.copy()
        people = [each.person for each in reports]
        losses[people] = [each.loss for each in reports]
        before = state
        state = replace(
            state,
            weights=published.weights,
            optimizer=averaged.state,
            clip_norm=averaged.clip_norm,
            residual=np.zeros(layout.size) if published.residual is None else published.residual,
            mean=last_average(state.mean, published.weights, number, experiment.evaluation.average_rounds),
            losses=losses,
            older={base: held[base] for base in sorted(planned.in_use)},
        )
        took_part.update(people)
        if compare is not None:
            state = _judged(prepared, referee, before, state, compare, people, number)
        if measured:
            ways = ways_to(published, [Base("", before.weights)], layout)
            shown = state.mean.astype(np.float32) if state.announced is None else state.announced
            point = msgspec.structs.replace(
                measure(prepared, referee, shown),
                round=number,
                train_loss=statistics.fmean(each.loss for each in reports),
                report_bytes=int(statistics.median(_frame_bytes(prepared, each, number) for each in reports)),
                bytes_down=min([4 * layout.size, *(len(data) for _, data in ways)]) + len(sent_bases),
                hours=hours if timed else None,
                device_seconds=worked_s if timed else None,
                wasted_seconds=wasted_s if timed else None,
            )
            state = replace(state, curve=(*state.curve, point))
            store(folder, state)
            measured_so_far(state.curve)
            for person in took_part:
                remove_old(folder, person, number)
            took_part.clear()
        progress(number, state.curve[-1])
    return list(state.curve)


def _judged(
    prepared: PreparedTraining,
    referee: Program,
    before: State,
    after: State,
    compare: Compare,
    people: Sequence[int],
    number: int,
) -> State:
    """The state after a round and the verdict at its end."""
    gate, announced, optimizer = before.gate, before.announced, before.announced_optimizer
    assert gate is not None, "the run began with one"
    assert announced is not None, "so it did"
    assert optimizer is not None, "so it did"
    found = compare(people, (gate.base, before.weights), (gate.announced[-1], announced))
    referee.restore(after.weights)
    loss, top1, top3 = evaluate(referee, [prepared.others])
    following = after_round(
        gate, number, found, VersionMetrics(top1=top1, top3=top3, loss=loss), prepared.experiment.gate
    )
    if following.announced[-1] != gate.announced[-1]:
        after = replace(after, announced=before.weights, announced_optimizer=before.optimizer)
    if following.base == gate.announced[-1]:
        after = replace(after, weights=announced, optimizer=optimizer)
    elif following.base == gate.base:
        after = replace(after, weights=before.weights, optimizer=before.optimizer)
    return replace(after, gate=following)


def _idle(prepared: PreparedTraining, referee: Program, state: State) -> State:
    """The rest of a paused run: keyboards keep what they have."""
    assert state.announced is not None, "a gate has paused it"
    rounds, every, last = prepared.experiment.rounds, prepared.experiment.evaluation.every, state.curve[-1]
    found = measure(prepared, referee, state.announced)
    names = ("loss", "top1", "top3", "held_out_top1", "held_out_top3")
    kept = msgspec.structs.replace(last, **{name: getattr(found, name) for name in names})
    left = (number for number in range(last.round + 1, rounds + 1) if number % every == 0 or number == rounds)
    state = replace(state, curve=(*state.curve, *(msgspec.structs.replace(kept, round=number) for number in left)))
    store(prepared.folder, state)
    return state


def _trained(
    executor: Executor, planned: PlannedVersion, number: int, held: Mapping[int, Vector], *, measured: bool
) -> list[Reported]:
    """The reports that make a version; those that began from the same version are trained together."""
    reports: list[Reported] = []
    for base in sorted({each.base for each in planned.work}):
        people = [each.person for each in planned.work if each.base == base]
        reports += executor.train(people, number, held[base], measured=measured)
    return sorted(reports, key=lambda each: each.person)


def _updates(
    reports: Sequence[Reported], planned: PlannedVersion, number: int, staleness: Staleness
) -> list[ClientUpdate]:
    factors = {each.person: staleness(number - 1 - each.base) for each in planned.work}
    named = [(device_of(each.person), each) for each in reports]
    return [ClientUpdate(name, each.num_examples, name.encode, factors[each.person]) for name, each in named]


def _from_sum(
    prepared: PreparedTraining, state: State, reports: Sequence[Reported], number: int
) -> tuple[Averaged, State]:
    """Average what the devices would give to a secure sum."""
    experiment, seed, layout = prepared.experiment, prepared.seed, prepared.layout
    order = _order(prepared, number, state.clip_norm)
    bases, spread = from_bytes(state.bases, layout, order.rank)
    total = np.zeros(_terms(prepared, order).values, np.uint32)
    for each in reports:
        rounding = seeded(seed, "rounding", number, each.person)
        update = each.update.dense() if isinstance(each.update, Sparse) else each.update
        total += contribution(update, each.num_examples, order, layout, bases, spread, rounding, rounding)
    found = average_of_sum(
        state.weights,
        state.optimizer,
        state.summed,
        total & np.uint32(2**order.bits - 1),
        len(reports),
        order,
        layout,
        state.bases,
        optimizer_for(experiment.strategy.choice(), number - 1),
        seeded(seed, "bases", number + 1),
    )
    return found.averaged, replace(state, summed=found.average, bases=found.bases)


def _order(prepared: PreparedTraining, number: int, clip_norm: float | None = None) -> SumOrder:
    size, first = prepared.experiment.cohort.size, prepared.experiment.plan.first_norm
    noise = _noise(prepared) if prepared.experiment.privacy.noised else None
    return sum_order(number, size, size, prepared.layout, first if clip_norm is None else clip_norm, noise)


def _terms(prepared: PreparedTraining, order: SumOrder) -> Terms:
    session = hashlib.sha256(f"laboratory {prepared.experiment.corpus} {order.number}".encode()).digest()
    return terms_of(order, prepared.layout, order.cohort, session)


def _aggregate(prepared: PreparedTraining, number: int, clip_norm: float | None) -> Aggregate:
    """How the updates of a round are combined; with differential privacy, the noise is that of the simulated people."""
    experiment, generator = prepared.experiment, seeded(prepared.seed, "aggregation", number)
    if experiment.privacy is not Privacy.DP:
        return aggregate_for(experiment.strategy.choice(), generator)
    return noised_mean(_noise(prepared), number - 1, experiment.dp.clip_norm if clip_norm is None else clip_norm)


def _noise(prepared: PreparedTraining) -> NoiseTerms:
    experiment, size = prepared.experiment, prepared.experiment.cohort.size
    separation, key = experiment.minimum_separation, f"{prepared.seed:016x}"
    terms = noise_for(experiment.dp, experiment.rounds, separation, size, key, summed=experiment.privacy.summed)
    if not experiment.people:
        return terms
    return msgspec.structs.replace(terms, multiplier=terms.multiplier * (size * separation / experiment.people))


def start_weights(prepared: PreparedTraining, device: Program) -> Vector:
    """The weights of round 0: pre-trained, or random and then trained on the text of the public people."""
    experiment, shape = prepared.experiment, configuration(prepared.experiment.model)
    if prepared.first is not None:
        return prepared.first.weights(shape.name)
    weights = initial_weights(shape, prepared.vocabulary.size, prepared.seed)
    passes = experiment.start.passes
    return train_in_one_place(prepared, device, weights, prepared.people.public, passes, experiment.start.learning_rate)


class Trainer(Protocol):
    """Trains one model; a device's program is one."""

    def train(self, x: Ids, y: Ids, learning_rate: float, clip_norm: float) -> object:
        """One step of SGD on a batch: x, y (B, T) int32."""

    def save(self) -> Vector:
        """The weights, (n,) float32."""

    def restore(self, weights: Vector) -> None:
        """Load weights (n,) float32."""


def train_in_one_place(
    prepared: PreparedTraining,
    device: Trainer,
    weights: Vector,
    messages: Sequence[str],
    passes: float,
    learning_rate: float,
) -> Vector:
    """SGD over the messages; the rate falls to a tenth in the second half. Returns the weights, (n,) float32."""
    if not passes:
        return weights
    shape, vocabulary = configuration(prepared.experiment.model), prepared.vocabulary
    encoded = [vocabulary.encode(words(message)) for message in messages]
    device.restore(weights)
    for number in range(int(np.ceil(passes))):
        batches = pack(encoded, shape.batch_rows, shape.sequence_length, seeded(prepared.seed, "in one place", number))
        for step, (x, y) in enumerate(batches):
            done = (number + step / len(batches)) / passes
            if done >= 1:
                break
            device.train(x, y, falling_rate(learning_rate, done), prepared.experiment.plan.clip_norm)
    return device.save()


def measure(prepared: PreparedTraining, device: Program, weights: Vector) -> Point:
    """Loss and recall of weights (n,) on the measured messages, and recall on those of the people held out."""
    device.restore(weights)
    loss, top1, top3 = evaluate(device, [prepared.measured])
    others = evaluate(device, [prepared.others]) if prepared.people.held_out else None
    return Point(
        round=0,
        loss=loss,
        top1=top1,
        top3=top3,
        held_out_top1=None if others is None else others[1],
        held_out_top3=None if others is None else others[2],
    )


def _frame_bytes(prepared: PreparedTraining, each: Reported, number: int) -> int:
    assert each.payload is not None, "the round is measured"
    codec, payload = codec_for(prepared.experiment.codec.choice()).wire_id, each.payload
    if prepared.experiment.privacy.summed:
        terms = _terms(prepared, _order(prepared, number))
        masked = MaskedUpdate(terms.session, bytes(SIGNATURE_BYTES), bytes(packed_bytes(terms)))
        codec, payload = MASKED_UPDATE, encode(masked)
    sent = Report(
        round=number,
        attempt=1,
        codec=codec,
        layout=prepared.layout.fingerprint,
        version=number - 1,
        num_examples=each.num_examples,
        steps=1,
        loss=each.loss,
        seconds=0.0,
        payload=payload,
    )
    return len(encode_report(sent))
