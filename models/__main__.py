"""``python -m models``: what can be made from here on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from models import corpora
from models.baselines import CENTRAL_TRAINING, measure_baselines
from models.configurations import CONFIGURATIONS, configuration
from models.exchange import FORMATS, exchange
from models.export import export_program
from models.folder import (
    HELD_OUT,
    MANIFEST,
    PROGRAM,
    VOCABULARY,
    WEIGHTS,
    lexicon_name,
    write_held_out,
    write_model_folder,
)
from models.initial import initial_weights
from models.vocabulary import Vocabulary
from models.word_lists import LANGUAGES, compiled
from wire.errors import NightjarError


@click.group()
def main() -> None:
    """Make the artifacts of a keyboard model."""


@main.command()
@click.option("--model", default="tiny", show_default=True, help=f"Configuration: {', '.join(CONFIGURATIONS)}.")
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write to; made if missing.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Of the corpus and the weights.")
@click.option(
    "--language",
    "languages",
    multiple=True,
    default=("en",),
    show_default=True,
    type=click.Choice(LANGUAGES),
    help="That people type in, for the keyboard's lexicon; may be given several times.",
)
def export(model: str, corpus: str, out: Path, seed: int, languages: tuple[str, ...]) -> None:
    """Write program.tflite, weights.bin (random), vocabulary.txt, lexicons, manifest.json and held_out.tsv."""
    shape = configuration(model)
    users = corpora.load(corpus, seed).users
    texts = (message for messages in users.values() for message in messages)
    vocabulary = Vocabulary.build(texts, shape.max_vocabulary)
    program = export_program(shape, vocabulary.size, out / "cache")
    lexicons = {language: compiled(language) for language in languages}
    write_model_folder(out, shape, vocabulary, program, initial_weights(shape, vocabulary.size, seed), lexicons)
    write_held_out(out, users)
    for name in (PROGRAM, WEIGHTS, VOCABULARY, *map(lexicon_name, sorted(lexicons)), MANIFEST, HELD_OUT):
        click.echo(f"{out / name}: {(out / name).stat().st_size} bytes")


@main.command("exchange")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", "form", required=True, type=click.Choice(FORMATS), help="safetensors needs no TensorFlow.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write; a folder for saved-model.")
def write_exchange(folder: Path, form: str, out: Path) -> None:
    """Write the model of FOLDER in the format of others."""
    click.echo(f"{out}: {exchange(folder, form, out)} bytes")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--corpus", required=True, help="To train on: personas, pydoc, or a TSV file (user, text).")
@click.option("--text", required=True, type=click.Path(path_type=Path), help="TSV file (user, text) to measure on.")
@click.option("--epochs", default=10, show_default=True, type=click.IntRange(1, 1000), help="Passes over the corpus.")
@click.option("--learning-rate", default=1.0, show_default=True, type=click.FloatRange(0, 1000, min_open=True))
@click.option("--clip-norm", default=1.0, show_default=True, type=click.FloatRange(0, 1e9, min_open=True))
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Of the order of the messages.")
def baselines(
    folder: Path, corpus: str, text: Path, epochs: int, learning_rate: float, clip_norm: float, seed: int
) -> None:
    """Train a trigram, and the model of FOLDER, in one place; print as JSON how good they are."""
    found = measure_baselines(
        folder,
        corpus,
        text,
        epochs=epochs,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        seed=seed,
        progress=_say_progress,
    )
    click.echo(msgspec.json.encode(found).decode())


def _say_progress(done: int, steps: int) -> None:
    """Twenty lines in all, which a terminal and a log show alike."""
    before, now = 20 * (done - 1) // steps, 20 * done // steps
    if now > before:
        click.echo(f"{CENTRAL_TRAINING}: {5 * now} % ({done:,} of {steps:,} steps)", err=True)


if __name__ == "__main__":
    try:
        main()
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
