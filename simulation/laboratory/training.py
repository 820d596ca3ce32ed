"""One federated training: the loop over rounds, with a checkpoint after each measurement.

A round is the product's: devices of a uniformly drawn cohort train and encode, and
:func:`coordinator.learning.fedavg.federated_average` decodes, clips, averages and applies the strategy. With secure
sums, the device's :func:`wire.secure_sum.order.contribution` and :mod:`coordinator.learning.summed` do, without masks,
which change nothing in a sum. The same experiment and seed give the same curve, bit for bit, whatever the executor, and
whether or not the run was interrupted.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from coordinator.learning.downlink import Base, publish, ways_to
from coordinator.learning.fedavg import Aggregate, Averaged, ClientUpdate, federated_average
from coordinator.learning.privacy.accounting import calibrated
from coordinator.learning.privacy.distributed import calibrated_sums
from coordinator.learning.privacy.ledger import Privacy
from coordinator.learning.privacy.noised_mean import NoiseTerms, noised_mean
from coordinator.learning.robust import aggregate_for
from coordinator.learning.strategies import State, Wide, highest_losses, last_average, optimizer_for
from coordinator.learning.summed import average_of_sum, first_bases, sum_order
from coordinator.rounds.selection import sample
from edge_agent.ports import Program
from edge_agent.shell.tflite import TfliteProgram
from host.files import replace_file
from models.batches import Batches, pack
from models.configurations import configuration
from models.corpora import Corpus
from models.export import export_program
from models.initial import initial_weights
from models.keyboard import batches_of, held_out
from models.vocabulary import Vocabulary, words
from models.warm_start import falling_rate
from simulation.laboratory.clients import Reported, as_read, remove_old
from simulation.laboratory.executor import Executor
from simulation.laboratory.experiment import CohortSettings, Experiment
from simulation.laboratory.people import People, divide
from simulation.rounds.availability import Availability, GeneratedAvailability, TracedAvailability
from simulation.warm_start import evaluate, seeded
from wire.codec import Sparse, codec_for
from wire.errors import ConfigError, UnavailableError
from wire.frame import MASKED_UPDATE, Report, encode_report
from wire.identifiers import DeviceId
from wire.parameters import ParameterLayout, Vector
from wire.secure_sum.low_rank import from_bytes
from wire.secure_sum.masks import packed_bytes
from wire.secure_sum.messages import MaskedUpdate, encode
from wire.secure_sum.order import SumOrder, contribution, terms_of
from wire.secure_sum.primitives import SIGNATURE_BYTES
from wire.secure_sum.terms import Terms, honest_devices, threshold_for

ABOUT, CURVE, STATE = "experiment.json", "metrics.jsonl", "checkpoint.npz"
_PERSON = "person-"
_MINUTE_S, _LONGEST_WAIT_S = 60.0, 86400.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The model after a round.

    Attributes:
        round: number of the round; 0 is the start.
        loss: mean cross-entropy per target, nats.
        top1: recall of the best suggestion, 0 to 1.
        top3: recall of the best three, 0 to 1.
        held_out_top1: the same on people who never train; None if nobody is held out.
        held_out_top3: the same.
        train_loss: mean over the round's devices, nats; None at the start.
        report_bytes: median length of the round's reports; None at the start.
        bytes_down: what a device that holds the weights before the round downloads to have those after it.
    """

    round: int
    loss: float
    top1: float
    top3: float
    held_out_top1: float | None = None
    held_out_top3: float | None = None
    train_loss: float | None = None
    report_bytes: int | None = None
    bytes_down: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a run needs before its first round.

    Attributes:
        experiment: the experiment.
        seed: root seed of the run.
        folder: of the run.
        people: the split of the corpus.
        vocabulary: of the training text.
        layout: of n parameters.
        program: path of the device program.
        batches: the examples of each person who trains.
        measured: the measured messages, packed.
        others: the messages of the people held out, packed.
    """

    experiment: Experiment
    seed: int
    folder: Path
    people: People
    vocabulary: Vocabulary
    layout: ParameterLayout
    program: Path
    batches: tuple[Batches, ...]
    measured: Batches
    others: Batches


def prepare(experiment: Experiment, corpus: Corpus, seed: int, folder: Path, programs: Path) -> Prepared:
    """Split the corpus, and make the program.

    Args:
        experiment: the experiment.
        corpus: its corpus.
        seed: root seed of the run.
        folder: of the run; made if missing. A folder of another experiment is refused.
        programs: cache of programs.

    Raises:
        CorpusError: too few people have enough messages.
        ConfigError: the folder holds another experiment.
        UnavailableError: the program or the folder could not be made.
    """
    people = divide(corpus, experiment.split, experiment.evaluation, seed, experiment.cohort.size)
    shape = configuration(experiment.model)
    vocabulary = Vocabulary.build((m for messages in people.train for m in messages), shape.max_vocabulary)
    rows, length = shape.batch_rows, shape.sequence_length
    share = experiment.plan.evaluation_share  # what devices hold back for their own figures, they do not train on
    return Prepared(
        experiment,
        seed,
        _opened(folder, experiment, seed),
        people,
        vocabulary,
        shape.layout(vocabulary.size),
        _program(experiment.model, vocabulary.size, programs, folder),
        tuple(batches_of(held_out(messages, share)[0], vocabulary, rows, length) for messages in people.train),
        batches_of(people.measured, vocabulary, rows, length),
        batches_of(people.held_out, vocabulary, rows, length),
    )


def run(
    prepared: Prepared,
    executor: Executor,
    progress: Callable[[int, Point], None] = lambda _round, _point: None,
    measured_so_far: Callable[[Sequence[Point]], None] = lambda _curve: None,
    aggregate: Callable[[int], Aggregate] | None = None,
) -> list[Point]:
    """Train, from the last checkpoint on if there is one.

    Args:
        prepared: the run.
        executor: trains the devices.
        progress: is told after each round its number and the newest point of the curve.
        measured_so_far: is given the curve at the beginning and after each measurement.
        aggregate: round number -> how its updates are combined; None takes the strategy's way.

    Returns:
        The whole curve.

    Raises:
        UnavailableError: a device could not train, or the model is not finite any more; what was reached is kept.
    """
    experiment, folder = prepared.experiment, prepared.folder
    choice, layout = experiment.strategy.choice(), prepared.layout
    private, summed = experiment.privacy.noised, experiment.privacy.summed
    referee = TfliteProgram(prepared.program, np.zeros(layout.size, np.float32), layout)
    state = _restored(folder)
    if state is None:
        start = start_weights(prepared, referee)
        point = _measured(prepared, referee, start)
        state = _State(
            weights=start,
            optimizer=optimizer_for(choice).init(layout.size),
            clip_norm=experiment.dp.clip_norm if private else None,
            residual=np.zeros(layout.size),
            mean=np.zeros(layout.size),
            summed=np.zeros(layout.size if summed else 0, np.float32),
            bases=first_bases(layout, seeded(prepared.seed, "bases", 1)) if summed else b"",
            losses=np.full(len(prepared.batches), np.nan),
            curve=(point,),
        )
        _store(folder, state)
    population = _Population.of(prepared)
    progress(state.curve[-1].round, state.curve[-1])
    measured_so_far(state.curve)
    took_part: set[int] = set()
    for number in range(state.curve[-1].round + 1, experiment.rounds + 1):
        cohort = population.cohort(number, state.losses)
        measured = number % experiment.evaluation.every == 0 or number == experiment.rounds
        reports = executor.train(cohort, number, state.weights, measured=measured)
        sent_bases = state.bases
        if summed:
            averaged, state = _from_sum(prepared, state, reports, number)
        else:
            averaged = federated_average(
                state.weights,
                state.optimizer,
                [ClientUpdate(_name(each.person), each.num_examples, _key(each)) for each in reports],
                as_read({_key(each)(): each.update for each in reports}, codec_for(experiment.codec.choice())),
                layout,
                optimizer_for(choice, number - 1),
                state.clip_norm,
                aggregate=aggregate(number) if aggregate else _aggregate(prepared, number),
                equal=private,
            )
        rounding = seeded(prepared.seed, "downlink", number)
        target = averaged.weights + state.residual
        published = publish(state.weights, target, experiment.downlink, layout, rounding)
        if not np.isfinite(published.weights).all():
            msg = f"the model is not finite after round {number}; {folder} keeps what was reached before"
            raise UnavailableError(msg)
        losses = state.losses.copy()
        losses[cohort] = [each.loss for each in reports]
        before = state.weights
        state = replace(
            state,
            weights=published.weights,
            optimizer=averaged.state,
            clip_norm=averaged.clip_norm,
            residual=np.zeros(layout.size) if published.residual is None else published.residual,
            mean=last_average(state.mean, published.weights, number, experiment.evaluation.average_rounds),
            losses=losses,
        )
        took_part.update(cohort)
        if measured:
            ways = ways_to(published, Base("", before), (), layout)
            point = msgspec.structs.replace(
                _measured(prepared, referee, state.mean.astype(np.float32)),
                round=number,
                train_loss=statistics.fmean(each.loss for each in reports),
                report_bytes=int(statistics.median(_frame_bytes(prepared, each, number) for each in reports)),
                bytes_down=min([4 * layout.size, *(len(data) for _, data in ways)]) + len(sent_bases),
            )
            state = replace(state, curve=(*state.curve, point))
            _store(folder, state)
            measured_so_far(state.curve)
            for person in took_part:
                remove_old(folder, person, number)
            took_part.clear()
        progress(number, state.curve[-1])
    return list(state.curve)


def _from_sum(prepared: Prepared, state: _State, reports: Sequence[Reported], number: int) -> tuple[Averaged, _State]:
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


def _order(prepared: Prepared, number: int, clip_norm: float | None = None) -> SumOrder:
    size, first = prepared.experiment.cohort.size, prepared.experiment.plan.first_norm
    noise = _noise(prepared) if prepared.experiment.privacy.noised else None
    return sum_order(number, size, size, prepared.layout, first if clip_norm is None else clip_norm, noise)


def _terms(prepared: Prepared, order: SumOrder) -> Terms:
    return terms_of(order, prepared.layout, order.cohort, "laboratory", prepared.experiment.corpus, order.number)


def _aggregate(prepared: Prepared, number: int) -> Aggregate:
    """How the updates of a round are combined; with differential privacy, the noise is that of the simulated people."""
    experiment, generator = prepared.experiment, seeded(prepared.seed, "aggregation", number)
    if experiment.privacy is not Privacy.DP:
        return aggregate_for(experiment.strategy.choice(), generator)
    return noised_mean(_noise(prepared), number - 1)


def _noise(prepared: Prepared) -> NoiseTerms:
    experiment = prepared.experiment
    size, separation = experiment.cohort.size, experiment.minimum_separation
    dp, summed = experiment.dp, experiment.privacy.summed
    multiplier = (calibrated_sums if summed else calibrated)(dp.epsilon, dp.delta, experiment.rounds, separation)
    if experiment.people:
        multiplier *= size * separation / experiment.people
    return NoiseTerms(
        clip_norm=dp.clip_norm,
        devices=size,
        multiplier=multiplier,
        separation=separation,
        key=f"{prepared.seed:016x}",
        honest=honest_devices(size, threshold_for(size)) if summed else 0,
    )


def start_weights(prepared: Prepared, device: Program) -> Vector:
    """The weights of round 0: random, then trained on the text of the public people if the experiment says so."""
    experiment, shape = prepared.experiment, configuration(prepared.experiment.model)
    weights = initial_weights(shape, prepared.vocabulary.size, prepared.seed)
    passes = experiment.start.passes
    return train_in_one_place(prepared, device, weights, prepared.people.public, passes, experiment.start.learning_rate)


def train_in_one_place(
    prepared: Prepared, device: Program, weights: Vector, messages: Sequence[str], passes: float, learning_rate: float
) -> Vector:
    """SGD over the messages with the device program; the rate falls to a tenth in the second half.

    Returns:
        (n,) float32.
    """
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


def restored_weights(folder: Path) -> Vector:
    """The weights that the last measurement of a run is of.

    Raises:
        UnavailableError: the run has not ended a round.
    """
    state = _restored(folder)
    if state is None or not state.curve[-1].round:
        msg = f"{folder} has no trained weights: run the experiment first"
        raise UnavailableError(msg)
    return state.mean.astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """What a run is between two rounds.

    Weights, optimizer, clip norm, the downlink's residual, average weights, average and bases of the sums, and losses.
    """

    weights: Vector
    optimizer: State
    clip_norm: float | None
    residual: Wide
    mean: Wide
    summed: Vector
    bases: bytes
    losses: Wide
    curve: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _Population:
    """Who can take part in which round."""

    settings: CohortSettings
    seed: int
    people: int
    availability: Availability | None

    @classmethod
    def of(cls, prepared: Prepared) -> _Population:
        settings, people = prepared.experiment.cohort, len(prepared.batches)
        availability: Availability | None = None
        if settings.availability == "generated":
            availability = GeneratedAvailability(prepared.seed)
        elif settings.availability:
            generator = seeded(prepared.seed, "availability")
            availability = TracedAvailability(Path(settings.availability), people, generator)
        return cls(settings, prepared.seed, people, availability)

    def cohort(self, number: int, losses: Wide) -> list[int]:
        """The people who take part in a round, in ascending order.

        If fewer are free than the cohort needs, these take part; if nobody is, the round waits for somebody.

        Raises:
            UnavailableError: nobody is free for a day.
        """
        begins_s = number * self.settings.round_s
        for now_s in np.arange(begins_s, begins_s + _LONGEST_WAIT_S, _MINUTE_S).tolist():
            free = [person for person in range(self.people) if self._is_free(person, now_s)]
            if free:
                break
        else:
            msg = f"nobody was free for a day before round {number}: give a trace with more windows"
            raise UnavailableError(msg)
        size, candidates = self.settings.size, self.settings.candidates
        drawn = sample([_name(person) for person in free], candidates or size, self.seed, number)
        if candidates is not None:
            known = {_name(person): float(losses[person]) for person in free if np.isfinite(losses[person])}
            drawn = highest_losses(drawn, known, size)
        return [int(name.removeprefix(_PERSON)) for name in drawn]

    def _is_free(self, person: int, now_s: float) -> bool:
        if self.availability is None:
            return True
        window = self.availability.next_window(person, now_s)
        return window is not None and window[0] <= now_s


def _name(person: int) -> DeviceId:
    return DeviceId(f"{_PERSON}{person:06d}")


def _key(report: Reported) -> Callable[[], bytes]:
    return _name(report.person).encode


def _measured(prepared: Prepared, device: Program, weights: Vector) -> Point:
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


def _frame_bytes(prepared: Prepared, each: Reported, number: int) -> int:
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


class About(msgspec.Struct, frozen=True):
    """What the folder of a run says of it: its seed and its experiment."""

    seed: int
    experiment: Experiment


def about(folder: Path) -> About:
    """What a run's folder says of it.

    Raises:
        ConfigError: it is not the folder of a run.
    """
    path = folder / ABOUT
    try:
        return msgspec.json.decode(path.read_bytes(), type=About)
    except (OSError, msgspec.DecodeError) as error:
        msg = f"{folder} is not the folder of a run, such as build/learn/seed-1: {error}"
        raise ConfigError(msg) from error


def _opened(folder: Path, experiment: Experiment, seed: int) -> Path:
    """The folder of a run, with the experiment in it; refuses to continue another experiment."""
    said = msgspec.json.format(msgspec.json.encode(About(seed, experiment)), indent=2) + b"\n"
    path = folder / ABOUT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and about(folder) != About(seed, experiment):
            msg = f"{folder} holds another experiment or seed: give another --out, or remove it"
            raise ConfigError(msg)
        replace_file(path, said)
    except OSError as error:
        msg = f"cannot write to {folder}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error
    return folder


def _program(model: str, vocabulary_size: int, programs: Path, folder: Path) -> Path:
    path = folder / "program.tflite"
    replace_file(path, export_program(configuration(model), vocabulary_size, programs))
    return path


def _store(folder: Path, state: _State) -> None:
    """Write the checkpoint, then the curve; a run that is killed in between has the older of the two at worst."""
    lines = b"".join(msgspec.json.encode(point) + b"\n" for point in state.curve)
    new = folder / f"new-{STATE}"
    try:
        np.savez(
            new,
            weights=state.weights,
            optimizer=state.optimizer,
            clip_norm=np.array([np.nan if state.clip_norm is None else state.clip_norm]),
            residual=state.residual,
            mean=state.mean,
            summed=state.summed,
            bases=np.frombuffer(state.bases, np.uint8),
            losses=state.losses,
            curve=np.frombuffer(lines, np.uint8),
        )
        new.replace(folder / STATE)
        replace_file(folder / CURVE, lines)
    except OSError as error:
        msg = f"cannot write to {folder}: {error}; the last checkpoint is kept"
        raise UnavailableError(msg) from error


def _restored(folder: Path) -> _State | None:
    path = folder / STATE
    if not path.exists():
        return None
    try:
        with np.load(path) as kept:
            clip_norm = float(kept["clip_norm"][0])
            lines = kept["curve"].tobytes().splitlines()
            return _State(
                weights=kept["weights"],
                optimizer=kept["optimizer"],
                clip_norm=None if np.isnan(clip_norm) else clip_norm,
                residual=kept["residual"],
                mean=kept["mean"],
                summed=kept["summed"],
                bases=kept["bases"].tobytes(),
                losses=kept["losses"],
                curve=tuple(msgspec.json.decode(line, type=Point) for line in lines),
            )
    except (OSError, ValueError, KeyError, msgspec.DecodeError) as error:
        msg = f"{path} cannot be read ({error}): remove {folder} to begin anew"
        raise ConfigError(msg) from error
