"""``python -m nightjar.experiments.linear``: runs the missing trainings, records them and draws them."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from nightjar.experiments.linear.picture import IMAGE, draw
from nightjar.experiments.linear.results import TrainedRun, record, results
from nightjar.experiments.linear.screening import keep, rounds_of, screen
from nightjar.experiments.linear.training import trained
from nightjar.experiments.linear.variants import DENSE, VARIANTS, CompressorVariant
from nightjar.models import corpora
from nightjar.models.corpora import Corpus
from nightjar.simulation.laboratory.experiment import read_experiment
from nightjar.simulation.laboratory.training import PreparedTraining, prepare
from nightjar.simulation.progress import say
from nightjar.simulation.warm_start import PROGRAMS

CHAT = Path("experiments") / "chat.toml"
SEED = 1
ROUNDS = {"tiny": 150, "gboard": 60}
SCREENED_ROUNDS = 20
STARTS = {"random": (), "warm": ("split.public_people=0.2", "start.passes=1")}


@click.command()
@click.option("--corpus", required=True, help="A TSV file (user, text).")
@click.option("--commit", required=True, help="The commit whose code runs.")
@click.option("--model", "models", multiple=True, type=click.Choice(list(VARIANTS)), help="Only this. [default: both]")
@click.option("--start", "starts", multiple=True, type=click.Choice(list(STARTS)), help="Only this. [default: both]")
@click.option("--only", multiple=True, help="Only the variants of these names.")
@click.option("--rounds", default=None, type=click.IntRange(10), help="Fewer than those of the dense trainings.")
@click.option("--screen", "screening", is_flag=True, help="Only play all beside the dense training as it goes on.")
@click.option("--out", default=Path("build") / "linear", show_default=True, type=click.Path(path_type=Path))
def main(
    *,
    corpus: str,
    commit: str,
    models: tuple[str, ...],
    starts: tuple[str, ...],
    only: tuple[str, ...],
    rounds: int | None,
    screening: bool,
    out: Path,
) -> None:
    """Compare linear compressors by what the model learns in equally many rounds.

    Trainings that experiments/linear/results.json has are not repeated, and one that was interrupted goes on.
    """
    console = Console()
    text = corpora.load(corpus, SEED)
    for model in models or tuple(VARIANTS):
        if screening:
            variants = [each for each in VARIANTS[model] if not only or each.name in only]
            dense = out / model / "random" / DENSE.name
            last = rounds_of(dense) + (rounds or SCREENED_ROUNDS)
            keep(screen(_prepared(text, model, "random", f"screening-{last}", last, out), variants, dense))
            continue
        for start in starts or tuple(STARTS):
            done = {each.key for each in results()}
            for variant in VARIANTS[model]:
                if (model, start, variant.name) not in done and (not only or variant.name in only):
                    found = _train(text, model, start, variant, rounds or ROUNDS[model], out, commit)
                    record(found)
                    end = found.losses[found.rounds]
                    say(console, f"{model}, {start}, {variant.name}: loss {end:.3f}, {found.report_bytes:,} B")
    draw(IMAGE)


def _train(
    corpus: Corpus, model: str, start: str, variant: CompressorVariant, rounds: int, out: Path, commit: str
) -> TrainedRun:
    prepared = _prepared(corpus, model, start, variant.name, rounds, out)
    curve, report_bytes, bytes_down = trained(prepared, variant)
    return TrainedRun(
        model=model,
        start=start,
        variant=variant.name,
        rounds=rounds,
        report_bytes=report_bytes,
        bytes_down=bytes_down,
        losses={point.round: round(point.loss, 4) for point in curve},
        top1=round(curve[-1].top1, 4),
        top3=round(curve[-1].top3, 4),
        commit=commit,
    )


def _prepared(corpus: Corpus, model: str, start: str, name: str, rounds: int, out: Path) -> PreparedTraining:
    settings = [f"corpus={corpus.name}", f"model={model}", f"rounds={rounds}", "evaluation.every=10"]
    experiment = read_experiment(CHAT, [*settings, *STARTS[start]])
    return prepare(experiment, corpus, SEED, out / model / start / name, PROGRAMS)


if __name__ == "__main__":
    main()
