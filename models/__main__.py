"""``python -m models``: what can be made from here on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from models import corpora
from models.configurations import CONFIGURATIONS, configuration
from models.exchange import FORMATS, exchange
from models.export import export_program
from models.folder import MANIFEST, PROGRAM, VOCABULARY, WEIGHTS, write_model_folder
from models.initial import initial_weights
from models.vocabulary import Vocabulary
from wire.errors import NightjarError


@click.group()
def main() -> None:
    """Make the artifacts of a keyboard model."""


@main.command()
@click.option("--model", default="tiny", show_default=True, help=f"Configuration: {', '.join(CONFIGURATIONS)}.")
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write to; made if missing.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(min=0), help="Of the corpus and the weights.")
def export(model: str, corpus: str, out: Path, seed: int) -> None:
    """Write program.tflite, weights.bin (random), vocabulary.txt and manifest.json."""
    shape = configuration(model)
    users = corpora.load(corpus, seed).users
    texts = (message for messages in users.values() for message in messages)
    vocabulary = Vocabulary.build(texts, shape.max_vocabulary)
    program = export_program(shape, vocabulary.size, out / "cache")
    write_model_folder(out, shape, vocabulary, program, initial_weights(shape, vocabulary.size, seed))
    for name in (PROGRAM, WEIGHTS, VOCABULARY, MANIFEST):
        click.echo(f"{out / name}: {(out / name).stat().st_size} bytes")


@main.command("exchange")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", "form", required=True, type=click.Choice(FORMATS), help="safetensors needs no TensorFlow.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write; a folder for saved-model.")
def write_exchange(folder: Path, form: str, out: Path) -> None:
    """Write the model of FOLDER in the format of others."""
    click.echo(f"{out}: {exchange(folder, form, out)} bytes")


if __name__ == "__main__":
    try:
        main()
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
