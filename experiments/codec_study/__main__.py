"""``python -m nightjar.experiments.codec_study``: runs the missing trainings, then prints the results."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from nightjar.experiments.codec_study.federation import run
from nightjar.experiments.codec_study.population import POPULATIONS, Population, prepare
from nightjar.experiments.codec_study.results import FinishedTraining, append, outcomes, read, table
from nightjar.experiments.codec_study.variants import VARIANTS
from nightjar.models import corpora
from nightjar.models.corpora import Corpus
from nightjar.simulation.progress import say
from nightjar.wire.errors import NightjarError


@click.command()
@click.option("--corpus", required=True, help="A TSV file (user, text) with about 1,500 users, or a name.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1, 100), help="Trainings per variant.")
@click.option("--rounds", default=None, type=click.IntRange(1, 10_000), help="Rounds; default: by population.")
@click.option("--population", "only", default=None, type=click.Choice([p.name for p in POPULATIONS]), help="Only this.")
@click.option(
    "--json",
    "trainings",
    default=Path("build") / "codec-study.jsonl",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File of finished trainings, one JSON line each; these are not run again.",
)
def command(*, corpus: str, seeds: int, rounds: int | None, only: str | None, trainings: Path) -> None:
    """Compare codecs by what the model learns in equally many rounds.

    Two populations of phones train the tiny model, once with each codec and seed: about 25 minutes of one core for
    three seeds. You can stop it at any time; the same command continues.
    """
    console = Console(width=max(160, Console().width))  # a narrower table is unreadable
    populations = [population for population in POPULATIONS if only in {None, population.name}]
    text = corpora.load(corpus, 0)
    for seed in range(1, seeds + 1):
        for population in populations:
            _train_missing(text, population, seed, rounds or population.rounds, trainings, console)
    kinds = {(population.name, rounds or population.rounds) for population in populations}
    finished = (t for t in read(trainings) if t.corpus == text.name and t.seed <= seeds)
    console.print(table(outcomes(t for t in finished if (t.population, t.rounds) in kinds)))


def _train_missing(
    corpus: Corpus, population: Population, seed: int, rounds: int, trainings: Path, console: Console
) -> None:
    done = {training.key for training in read(trainings)}
    names = {variant: (corpus.name, population.name, variant.name, seed, rounds) for variant in VARIANTS}
    missing = [variant for variant, key in names.items() if key not in done]
    if not missing:
        return
    setting = prepare(corpus, population, seed)
    for variant in missing:
        started_s = time.monotonic()
        with console.status(f"seed {seed}, {population.name}, {variant.name}: {rounds} rounds"):
            curve, report_bytes = run(setting, variant, rounds)
        training = FinishedTraining(
            corpus=corpus.name,
            population=population.name,
            variant=variant.name,
            seed=seed,
            rounds=rounds,
            report_bytes=report_bytes,
            curve=tuple(curve),
            seconds=round(time.monotonic() - started_s, 1),
        )
        append(trainings, training)
        end = curve[-1]
        say(
            console,
            f"seed {seed}, {population.name}, {variant.name}: nll {curve[0].nll:.3f} to {end.nll:.3f}, top-3 "
            f"{100 * end.top3:.1f} %, {report_bytes:,.0f} B a report, {training.seconds:.0f} s",
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an expected error is printed as one line, without a traceback.

    Args:
        arguments: command line; None uses that of the process.
    """
    try:
        command(arguments, prog_name="nightjar.experiments.codec_study")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
