"""``python -m models``: what can be made from here on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from models import corpora
from models.configurations import CONFIGURATIONS, configuration
from models.export import export_program
from models.initial import initial_weights
from models.manifest import Artifact, Manifest
from models.vocabulary import Vocabulary
from wire.errors import NightjarError
from wire.parameters import weights_to_bytes

MINIMUM_AGENT_VERSION = "0.1.0"


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
    files = {
        "program.tflite": export_program(shape, vocabulary.size, out / "cache"),
        "weights.bin": weights_to_bytes(initial_weights(shape, vocabulary.size, seed)),
        "vocabulary.txt": vocabulary.to_bytes(),
    }
    manifest = Manifest(
        version=0,
        configuration=shape.name,
        program=Artifact.of(files["program.tflite"]),
        weights=Artifact.of(files["weights.bin"]),
        vocabulary=Artifact.of(files["vocabulary.txt"]),
        layout=shape.layout(vocabulary.size),
        batch_rows=shape.batch_rows,
        sequence_length=shape.sequence_length,
        hidden=shape.hidden,
        minimum_agent_version=MINIMUM_AGENT_VERSION,
    )
    for name, data in (files | {"manifest.json": manifest.encode()}).items():
        (out / name).write_bytes(data)
        click.echo(f"{out / name}: {len(data)} bytes")


if __name__ == "__main__":
    try:
        main()
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
