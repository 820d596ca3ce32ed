"""With what a fleet starts: a vocabulary, weights, an n-gram model, and text to measure versions on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nightjar.models import corpora
from nightjar.models.compact_ngram import compile_ngram
from nightjar.models.configurations import ModelConfiguration
from nightjar.models.export import export_program
from nightjar.models.folder import hold_out, write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.packaged import packaged_file, program_for
from nightjar.models.shipped import opened, shipped
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.models.warm_start import PASSES, warm_start
from nightjar.models.word_lists import compiled
from nightjar.wire.errors import ConfigError
from nightjar.wire.parameters import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """The first version of a keyboard's model, but for its program."""

    vocabulary: Vocabulary
    weights: Vector  # (n,) float32
    ngram: bytes  # a file of :mod:`nightjar.models.compact_ngram`
    held_out: Sequence[tuple[str, str]]  # (user, message)
    before: str | None = None  # ISO date before which all text was written, if that is known


def pretrained_start(shape: ModelConfiguration, seed: int, passes: float | None, folder: Path | None = None) -> Start:
    """The pre-trained model that comes with Nightjar, or that of a folder; with passes = 0 its weights are random.

    Invented people's text is held out: no real text comes with Nightjar. With a folder there is none: they write
    English, and whoever made the folder has text of its language.

    Raises:
        ConfigError: there is none of this configuration, or passes need a corpus.
    """
    if passes:
        msg = f"--passes {passes:g} needs --corpus, the text to train on"
        raise ConfigError(msg)
    found = shipped() if folder is None else opened(folder)
    vocabulary = found.vocabulary(shape.name)
    weights = found.weights(shape.name) if passes is None else initial_weights(shape, vocabulary.size, seed)
    held_out = hold_out(corpora.load("personas", seed).users)[1] if folder is None else ()
    return Start(vocabulary, weights, found.ngram(shape.name), held_out, found.before)


def write_start(
    out: Path, shape: ModelConfiguration, start: Start, languages: Sequence[str], cache: Path | None = None
) -> bool:
    """Write the model folder of a start, with its program and the lexicons of some languages.

    The program is a packaged one where there is one of this shape, which needs no TensorFlow. Devices compute another
    only if their owner signs it; those that were exported are kept in ``cache``, or in the folder.

    Returns:
        Whether the program is a packaged one.

    Raises:
        ConfigError: TensorFlow or a word list is not installed.
        UnavailableError: the conversion failed, or the folder cannot be written.
    """
    packaged = program_for(shape, start.vocabulary.size)
    if packaged is None:
        program = export_program(shape, start.vocabulary.size, cache or out / "cache")
    else:
        program = packaged_file(packaged)
    lexicons = {language: compiled(language) for language in languages}
    rows = None if packaged is None else packaged.rows
    write_model_folder(
        out, shape, start.vocabulary, program, start.weights, lexicons, start.ngram, start.held_out, rows=rows
    )
    return packaged is not None


def trained_start(
    shape: ModelConfiguration,
    corpus: str,
    seed: int,
    passes: float | None,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> Start:
    """A model trained on a corpus without its held-out text.

    Raises:
        CorpusError: the corpus cannot be read, or holds no text.
    """
    texts, held_out = hold_out(corpora.load(corpus, seed).users)
    vocabulary = Vocabulary.build(texts, shape.max_vocabulary)
    messages = [vocabulary.encode(words(text)) for text in texts]
    say(f"corpus {corpus}: {len(texts):,} messages for training, {len(held_out):,} for evaluation")
    weights = warm_start(shape, vocabulary.size, messages, PASSES if passes is None else passes, seed, progress)
    return Start(vocabulary, weights, compile_ngram(messages, vocabulary.size), held_out)
