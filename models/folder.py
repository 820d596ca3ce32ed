"""The folder of an exported model, from which a coordinator takes its first version.

It holds ``program.tflite``, ``weights.bin`` and ``vocabulary.txt``; for keyboards a ``lexicon-LANGUAGE.bin`` for each
language and ``ngram.bin``; and ``manifest.json`` with the hashes of all. ``held_out.tsv`` is optional: public text on
which the coordinator measures its versions; devices never get it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nightjar.models.configurations import ModelConfiguration
from nightjar.models.manifest import Artifact, LexiconFile, Manifest
from nightjar.models.padding import padded
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.errors import UnavailableError
from nightjar.wire.parameters import Vector, weights_to_bytes

PROGRAM = "program.tflite"
WEIGHTS = "weights.bin"
VOCABULARY = "vocabulary.txt"
MANIFEST = "manifest.json"
NGRAM = "ngram.bin"
HELD_OUT = "held_out.tsv"

CLASSIFIERS = ("logistic", "2nn", "lenet-5", "resnet-8")
"""Models of the task type classification (:mod:`nightjar.models.classifiers`)."""

HELD_OUT_EVERY, MOST_HELD_OUT = 10, 2000
"""Every tenth message is held out, but at most 2,000 (some ten thousand words), which are measured in seconds."""

MINIMUM_AGENT_VERSION = "0.1.0"
"""The oldest agent that can run the programs of this release."""


def lexicon_name(language: str) -> str:
    """File name of a language's lexicon.

    >>> lexicon_name("en")
    'lexicon-en.bin'
    """
    return f"lexicon-{language}.bin"


def write_model_folder(
    folder: Path,
    shape: ModelConfiguration,
    vocabulary: Vocabulary,
    program: bytes,
    weights: Vector,
    lexicons: Mapping[str, bytes] | None = None,
    ngram: bytes | None = None,
    held_out: Sequence[tuple[str, str]] = (),
    *,
    rows: int | None = None,
) -> Manifest:
    """Write version 0 of a model.

    The weights are those of the vocabulary's words; ``rows`` of the embedding are written, the others padded with
    zeros, or as many as there are words.

    Lexicons are files of :mod:`nightjar.models.lexicon` by language, the n-gram model is one of
    :mod:`nightjar.models.compact_ngram`. The held-out text is (user, message), without tabs and line breaks.

    Raises:
        UnavailableError: the folder cannot be written.
    """
    layout = shape.layout(rows or vocabulary.size)
    weights = padded(weights, layout, vocabulary.size)
    parts = {PROGRAM: program, WEIGHTS: weights_to_bytes(weights), VOCABULARY: vocabulary.to_bytes()}
    lexicons = lexicons or {}
    parts |= {lexicon_name(language): data for language, data in lexicons.items()}
    if ngram is not None:
        parts[NGRAM] = ngram
    if held_out:
        parts[HELD_OUT] = "".join(f"{user}\t{message}\n" for user, message in [("user", "text"), *held_out]).encode()
    manifest = Manifest(
        version=0,
        configuration=shape.name,
        program=Artifact.of(parts[PROGRAM]),
        weights=Artifact.of(parts[WEIGHTS]),
        vocabulary=Artifact.of(parts[VOCABULARY]),
        layout=layout,
        batch_rows=shape.batch_rows,
        sequence_length=shape.sequence_length,
        hidden=shape.hidden,
        minimum_agent_version=MINIMUM_AGENT_VERSION,
        lexicons=tuple(LexiconFile(language, Artifact.of(data)) for language, data in sorted(lexicons.items())),
        ngram=None if ngram is None else Artifact.of(ngram),
    )
    write_files(folder, manifest, parts)
    return manifest


def hold_out(users: Mapping[str, Sequence[str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Split a corpus into training messages and held-out (user, message), which are spread evenly over it.

    All messages of a corpus with fewer than ten are both.
    """
    rows = [(user, " ".join(message.split())) for user, messages in users.items() for message in messages]
    chosen = range(HELD_OUT_EVERY - 1, len(rows), HELD_OUT_EVERY) or range(len(rows))
    chosen = chosen[:: -(-len(chosen) // MOST_HELD_OUT)] if chosen else chosen
    kept = [message for number, (_, message) in enumerate(rows) if number not in chosen]
    held_out = [rows[number] for number in chosen]
    return kept or [message for _, message in held_out], held_out


def write_files(folder: Path, manifest: Manifest, parts: Mapping[str, bytes]) -> None:
    """Write the files of a model by name; the manifest last, so that a folder with a manifest is complete.

    Raises:
        UnavailableError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in {**parts, MANIFEST: manifest.encode()}.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        msg = f"cannot write the model to {folder}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error
