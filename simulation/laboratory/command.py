"""``python -m nightjar.simulation learn``: runs an experiment with several seeds, or a grid, and compares them."""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nightjar.host.files import replace_file
from nightjar.models import corpora
from nightjar.models.configurations import configuration
from nightjar.simulation.laboratory import references
from nightjar.simulation.laboratory.checkpoint import Point
from nightjar.simulation.laboratory.event_files import event_files
from nightjar.simulation.laboratory.executor import Executor, InProcess, Processes
from nightjar.simulation.laboratory.experiment import Experiment, read_experiment
from nightjar.simulation.laboratory.keyboards import own_keyboards, versions_of
from nightjar.simulation.laboratory.optional_jax import needing_jax
from nightjar.simulation.laboratory.outcome import (
    Outcome,
    outcome_table,
    personal_table,
    time_table,
    time_taken,
    version_table,
)
from nightjar.simulation.laboratory.personalisation import personalise
from nightjar.simulation.laboratory.plot import plot
from nightjar.simulation.laboratory.ray_executor import RayWorkers
from nightjar.simulation.laboratory.training import Compare, PreparedTraining, Trainer, prepare, run
from nightjar.simulation.progress import say
from nightjar.simulation.warm_start import PROGRAMS
from nightjar.wire.errors import ConfigError

IN_JAX = "nightjar.simulation.laboratory.jax_executor"


@dataclass(frozen=True, slots=True)
class _Beyond:
    """What is measured beside the curve: passes of central training, people to personalise for, and a trigram."""

    central: float
    personalise: int
    trigram: bool


@dataclass(frozen=True, slots=True)
class _On:
    """What trains: processes of this machine, a Ray cluster, or JAX."""

    workers: int
    ray: str
    jax: bool

    def __post_init__(self) -> None:
        if self.jax and (self.ray or self.workers > 1):
            msg = "--jax trains a cohort at once in one process: leave --workers and --ray out"
            raise ConfigError(msg)

    @property
    def name(self) -> str:
        if self.jax:
            return "jax"
        return "ray" if self.ray else "processes" if self.workers > 1 else "in-process"

    def executor(self, prepared: PreparedTraining) -> Executor:
        make = prepared.device_maker()
        if self.jax:
            cohort = needing_jax(IN_JAX).JaxCohort(
                make(prepared.program), configuration(prepared.experiment.model), prepared.folder
            )
            return cast(Executor, cohort)
        if self.ray:
            return RayWorkers(make, prepared.program, self.workers, prepared.folder, self.ray)
        if self.workers > 1:
            return Processes(partial(make, prepared.program), self.workers, prepared.folder)
        return InProcess(make(prepared.program), prepared.folder)

    def trainer(self, prepared: PreparedTraining) -> Trainer | None:
        """What trains in one place; None is the device program."""
        if not self.jax:
            return None
        return cast(Trainer, needing_jax(IN_JAX).JaxTrainer(prepared.layout, configuration(prepared.experiment.model)))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "settings", multiple=True, help="KEY=VALUE, such as strategy.server_learning_rate=0.01.")
@click.option("--sweep", "sweeps", multiple=True, help="KEY=A,B,C: runs each value; several make a grid.")
@click.option("--corpus", default=None, help="Instead of the file's: personas, pydoc, or a TSV file (user, text).")
@click.option("--rounds", default=None, type=click.IntRange(1), help="Instead of the file's.")
@click.option("--seeds", default="1", show_default=True, help="Comma-separated; each is a run of its own.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 256), help="Processes.")
@click.option("--ray", default="", help="Put them on a Ray cluster: auto, HOST:PORT, or ray://HOST:PORT.")
@click.option("--jax", is_flag=True, help="Train a cohort at once with JAX, on a GPU if there is one; --central too.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder; a run that is in it goes on.")
@click.option("--central", default=0.0, type=click.FloatRange(0, 1000), help="Passes of the same model in one place.")
@click.option("--trigram", is_flag=True, help="Measure a trigram of the same text beside it.")
@click.option("--personalise", default=0, type=click.IntRange(0), help="Personalise the model for so many people.")
@click.option("--json", "as_json", is_flag=True, help="End with the outcome as JSON, one object for each variant.")
def learn(
    *,
    file: Path,
    settings: tuple[str, ...],
    sweeps: tuple[str, ...],
    corpus: str | None,
    rounds: int | None,
    seeds: str,
    workers: int,
    ray: str,
    jax: bool,
    out: Path,
    central: float,
    trigram: bool,
    personalise: int,
    as_json: bool,
) -> None:
    """Train the experiment of FILE by federated averaging on one machine, with the device's own program.

    OUT gets metrics.jsonl, TensorBoard event files and a checkpoint for each run, the curve as SVG and PNG, and
    outcome.json. A run that was interrupted goes on from its last measurement.
    """
    console = Console(stderr=True)
    numbers = _numbers(seeds)
    on = _On(workers, ray, jax=jax)
    beside = [f"corpus={corpus}"] if corpus else []
    beside += [f"rounds={rounds}"] if rounds else []
    outcomes: list[Outcome] = []
    curves: dict[str, list[list[Point]]] = {}
    beyond = _Beyond(central, personalise, trigram=trigram)
    lines: dict[str, float] = {}
    for variant in _grid(sweeps):
        experiment = read_experiment(file, [*settings, *beside, *variant])
        name = " ".join(variant) or file.stem
        folder = out / "-".join(variant).replace("/", "_") if variant else out
        outcome, found = _run_all(experiment, name, numbers, folder, on, beyond, console)
        curves[name] = found
        outcomes.append(msgspec.structs.replace(outcome, time=time_taken(found, next(iter(curves.values())))))
        lines |= {} if outcome.central_top1 is None else {"central": outcome.central_top1}
        lines |= {} if outcome.trigram_top1 is None else {"trigram": outcome.trigram_top1}
    plot(out / "curve", curves, lines)
    replace_file(out / "outcome.json", msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    console.print(outcome_table(outcomes))
    if personalise:
        console.print(personal_table(outcomes))
    if any(outcome.announced_versions for outcome in outcomes):
        console.print(version_table(outcomes))
    if any(outcome.time for outcome in outcomes):
        console.print(time_table(outcomes))
    say(console, f"{out / 'curve.svg'} shows the curves")
    if as_json:
        for outcome in outcomes:
            click.echo(msgspec.json.encode(outcome).decode())


def _run_all(
    experiment: Experiment,
    name: str,
    seeds: Sequence[int],
    folder: Path,
    on: _On,
    beyond: _Beyond,
    console: Console,
) -> tuple[Outcome, list[list[Point]]]:
    begun_s = time.monotonic()
    curves, trigrams, centrals, personal, versions = [], [], [], [], []
    parameters = 0
    for seed in seeds:
        corpus = corpora.load(experiment.corpus, seed)
        prepared = prepare(experiment, corpus, seed, folder / f"seed-{seed}", PROGRAMS)
        parameters = prepared.layout.size
        people = prepared.people
        say(
            console,
            f"{name}, seed {seed}: {len(people.train):,} people with {sum(map(len, people.train)):,} messages to train "
            f"on; measured on {len(people.measured):,} of their {experiment.evaluation.part} messages and "
            f"{len(people.held_out):,} of people who never train; {parameters:,} parameters",
        )
        keyboards = own_keyboards(prepared) if experiment.gate.keyboards else None
        curves.append(_run(prepared, on, console, None if keyboards is None else keyboards.compared))
        if keyboards is not None:
            versions.append(versions_of(keyboards))
        if beyond.trigram:
            trigrams.append(references.trigram(prepared))
        if beyond.central:
            centrals.append(references.central(prepared, beyond.central, on.trainer(prepared)))
        if beyond.personalise:
            personal.append(personalise(prepared, beyond.personalise))
    ends = [curve[-1] for curve in curves]
    measured = [point for curve in curves for point in curve if point.report_bytes is not None]
    outcome = Outcome(
        experiment=name,
        model=experiment.model,
        parameters=parameters,
        rounds=experiment.rounds,
        seeds=list(seeds),
        part=experiment.evaluation.part,
        top1_start=statistics.fmean(curve[0].top1 for curve in curves),
        top1=statistics.fmean(end.top1 for end in ends),
        top3=statistics.fmean(end.top3 for end in ends),
        top1_spread=max(end.top1 for end in ends) - min(end.top1 for end in ends),
        held_out_top1=_mean_or_none(end.held_out_top1 for end in ends),
        held_out_top3=_mean_or_none(end.held_out_top3 for end in ends),
        perplexity=math.exp(statistics.fmean(end.loss for end in ends)),
        trigram_top1=_mean_or_none(known.top1 for known, _ in trigrams),
        trigram_top3=_mean_or_none(known.top3 for known, _ in trigrams),
        trigram_held_out_top1=_mean_or_none(others and others.top1 for _, others in trigrams),
        central_top1=_mean_or_none(found.top1 for found in centrals),
        central_top3=_mean_or_none(found.top3 for found in centrals),
        central_held_out_top1=_mean_or_none(found.held_out_top1 for found in centrals),
        personalisation=personal,
        announced_versions=[each.announced for each in versions],
        paused_reason=[each.paused for each in versions],
        own_keystrokes_saved=[each.own for each in versions],
        later_keystrokes_saved=[each.later for each in versions],
        report_bytes_median=int(statistics.median(point.report_bytes or 0 for point in measured)),
        bytes_down_median=int(statistics.median(point.bytes_down or 0 for point in measured)),
        executor=on.name,
        workers=on.workers,
        seconds=time.monotonic() - begun_s,
    )
    return outcome, curves


def _run(prepared: PreparedTraining, on: _On, console: Console, compare: Compare | None) -> list[Point]:
    experiment = prepared.experiment
    executor = on.executor(prepared)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds", total=experiment.rounds)

        def told(number: int, newest: Point) -> None:
            bar.update(task, completed=number, description=f"top-1 {100 * newest.top1:.1f} %")
            if not console.is_terminal and newest.round == number:
                say(console, f"round {number}: top-1 {100 * newest.top1:.2f} %, top-3 {100 * newest.top3:.2f} %")

        with contextlib.closing(executor), event_files(prepared.folder) as write_events:
            return run(prepared, executor, told, write_events, compare=compare)


def _grid(sweeps: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The settings of each variant; one without settings if nothing is swept."""
    axes = []
    for sweep in sweeps:
        key, _, values = sweep.partition("=")
        if not values:
            msg = f"--sweep: expected KEY=A,B,C, such as plan.learning_rate=1,3, got {sweep!r}"
            raise ConfigError(msg)
        axes.append([f"{key}={value}" for value in values.split(",")])
    return itertools.product(*axes)


def _numbers(seeds: str) -> list[int]:
    try:
        found = [int(seed) for seed in seeds.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 0 or len(set(found)) < len(found):
        msg = f"--seeds: expected different numbers from 0, such as 1,2,3, got {seeds!r}"
        raise ConfigError(msg)
    return found


def _mean_or_none(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
