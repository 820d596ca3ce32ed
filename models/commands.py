"""``python -m nightjar.models``: exports, converts and measures keyboard models."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import click
import msgspec

from nightjar.host.command_output import watch_output
from nightjar.models import corpora
from nightjar.models.baselines import CENTRAL_TRAINING, measure_baselines
from nightjar.models.configurations import CONFIGURATIONS, configuration
from nightjar.models.exchange import FORMATS, exchange
from nightjar.models.folder import (
    CLASSIFIERS,
    HELD_OUT,
    MANIFEST,
    NGRAM,
    PROGRAM,
    VOCABULARY,
    WEIGHTS,
    lexicon_name,
)
from nightjar.models.pretraining.pace import Paced
from nightjar.models.starts import pretrained_start, trained_start, write_start
from nightjar.models.warm_start import PASSES
from nightjar.models.word_lists import LANGUAGES
from nightjar.wire.errors import ConfigError, NightjarError, UnavailableError


@click.group()
def main() -> None:
    """Make and measure the artifacts of a keyboard model."""


@main.command()
@click.option(
    "--model", default="tiny", show_default=True, help=f"Configuration: {', '.join((*CONFIGURATIONS, *CLASSIFIERS))}."
)
@click.option(
    "--corpus",
    help="Train on personas, pydoc, or a TSV file (user, text), instead of taking the pre-trained model; of a "
    "classifier the examples, which fix shape and classes.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output folder; created if missing.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Seed of corpus and weights.")
@click.option(
    "--language",
    "languages",
    multiple=True,
    default=("en",),
    show_default=True,
    type=click.Choice(LANGUAGES),
    help="Language of the keyboard's lexicon; may be given several times.",
)
@click.option(
    "--passes",
    type=click.FloatRange(0, 1000),
    help=f"Passes of central training over the corpus, {PASSES:g} by default; 0: random weights.",
)
@click.option("--start", "folder", type=click.Path(path_type=Path), help="A folder that pretrain made, of your own.")
def export(
    model: str,
    corpus: str | None,
    out: Path,
    seed: int,
    languages: tuple[str, ...],
    passes: float | None,
    folder: Path | None,
) -> None:
    """Write program, weights, vocabulary, lexicons, n-gram model, manifest and held-out text.

    Without --corpus the model is the pre-trained one that comes with Nightjar, and invented people's text is held out;
    or that of --start, without such text. With --corpus the weights and the n-gram model are trained on the corpus
    without its held-out text. Devices get both, so the corpus must be public.
    """
    if model in CLASSIFIERS:
        if corpus is None:
            msg = f"--model {model} needs --corpus, the examples"
            raise ConfigError(msg)
        from nightjar.models.classifiers import export_classifier

        made = export_classifier(model, Path(corpus), out, seed)
        click.echo(
            f"{out}: {made.layout.size:,} parameters, random weights; examples of shape {made.inputs}; a training "
            f"takes {made.memory_bytes >> 20} MB"
        )
        return
    shape = configuration(model)
    if folder is not None and corpus is not None:
        msg = "--start and --corpus exclude each other: a model is pre-trained or trained here"
        raise ConfigError(msg)
    if corpus is None:
        start = pretrained_start(shape, seed, passes, folder)
        click.echo(f"pre-trained on text of before {start.before}" if start.before else "pre-trained")
    else:
        start = trained_start(shape, corpus, seed, passes, click.echo, partial(_say_progress, "warm start"))
    if passes == 0:
        click.echo("random weights (--passes 0): suggestions are meaningless during the first rounds")
    packaged = write_start(out, shape, start, languages)
    held_out = (HELD_OUT,) if start.held_out else ()
    for name in (PROGRAM, WEIGHTS, VOCABULARY, *map(lexicon_name, sorted(set(languages))), NGRAM, MANIFEST, *held_out):
        click.echo(f"{out / name}: {(out / name).stat().st_size} bytes")
    if not packaged:
        click.echo(f"devices compute this program only once you have signed it: nightjar-firmware keys sign KEYS {out}")


@main.command()
@click.option("--corpus", required=True, type=click.Path(path_type=Path), help="A TSV file (user, text; time).")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output folder; created if missing.")
@click.option("--before", help="Use only text written before this date, such as 2015-01-01; needs the column time.")
@click.option("--language", default="en", show_default=True, type=click.Choice(LANGUAGES), help="Language of the text.")
@click.option("--source", default="", help="The text's name, authors, licence and address, for the README.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Seed of weights and order.")
def pretrain(corpus: Path, out: Path, before: str | None, language: str, source: str, seed: int) -> None:
    """Train the models with which fleets start, so that they name nobody; goes on where it was killed."""
    from nightjar.models.pretraining.making import PretrainingOptions, pretrain

    options = {"before": before, "language": language, "source": source, "seed": seed}
    command = ["python", "-m", "nightjar.models", "pretrain", "--corpus", corpus.name, "--out", out.name]
    command += [part for name, value in options.items() if value for part in (f"--{name}", str(value))]
    asked = PretrainingOptions(corpus, out, before, language, seed, source, shlex.join(command))
    pretrain(asked, partial(click.echo, err=True), Paced(partial(click.echo, err=True)))
    for path in sorted(out.iterdir()):
        click.echo(f"{path}: {path.stat().st_size} bytes")


@main.command("people")
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option(
    "--seed", default=8, show_default=True, type=click.IntRange(min=0), help="Seed of personas; the export used 7."
)
@click.option("--people", default=2, show_default=True, type=click.IntRange(min=1), help="Number of people.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output folder; created if missing.")
def write_people(corpus: str, seed: int, people: int, out: Path) -> None:
    """Write each person's messages to person-1.txt and so on, for emulated phones to type (emulator.messages)."""
    users = corpora.load(corpus, seed).users
    if people > len(users):
        msg = f"--people: corpus {corpus} has {len(users)} people, got {people}"
        raise ConfigError(msg)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number, (user, messages) in enumerate(islice(users.items(), people), start=1):
            path = out / f"person-{number}.txt"
            corpora.write_messages(path, messages)
            click.echo(f"{path}: {len(messages)} messages of {user}")
    except OSError as error:
        msg = f"cannot write to {out}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error


@main.command("exchange")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", "form", required=True, type=click.Choice(FORMATS), help="safetensors needs no TensorFlow.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Output file; a folder for saved-model.")
def write_exchange(folder: Path, form: str, out: Path) -> None:
    """Convert the model in FOLDER to another format."""
    click.echo(f"{out}: {exchange(folder, form, out)} bytes")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--corpus", required=True, help="Training text: personas, pydoc, or a TSV file (user, text).")
@click.option("--text", required=True, type=click.Path(path_type=Path), help="Test text: a TSV file (user, text).")
@click.option("--epochs", default=10, show_default=True, type=click.IntRange(1, 1000), help="Passes over the corpus.")
@click.option("--learning-rate", default=1.0, show_default=True, type=click.FloatRange(0, 1000, min_open=True))
@click.option("--clip-norm", default=1.0, show_default=True, type=click.FloatRange(0, 1e9, min_open=True))
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Seed of the message order.")
def baselines(
    folder: Path, corpus: str, text: Path, epochs: int, learning_rate: float, clip_norm: float, seed: int
) -> None:
    """Train a trigram and the model in FOLDER centrally; print their recall and loss as JSON."""
    found = measure_baselines(
        folder,
        corpus,
        text,
        epochs=epochs,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        seed=seed,
        progress=partial(_say_progress, CENTRAL_TRAINING),
    )
    click.echo(msgspec.json.encode(found).decode())


def _say_progress(what: str, done: int, steps: int) -> None:
    """Print at most twenty progress lines, readable in a terminal and in a log."""
    before, now = 20 * (done - 1) // steps, 20 * done // steps
    if now > before:
        click.echo(f"{what}: {5 * now} % ({done:,} of {steps:,} steps)", err=True)


def run() -> None:
    """Run a command; an expected error is printed as one line, without a traceback."""
    watch_output()
    try:
        main(prog_name="python -m nightjar.models")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
