"""``pretrain``: from a corpus file to the folder of pre-trained models (:mod:`nightjar.models.shipped`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from nightjar.host.files import READABLE, replace_file
from nightjar.models.batches import pack
from nightjar.models.compact_ngram import compile_ngram, read_ngram
from nightjar.models.configurations import ModelConfiguration, configuration
from nightjar.models.keyboard import EVALUATION_ROWS
from nightjar.models.ngram import recall_of, train_trigram
from nightjar.models.pretraining import examples, word_rule
from nightjar.models.pretraining.examples import shared_examples
from nightjar.models.pretraining.readme import readme
from nightjar.models.pretraining.training import PLANS, PretrainingPlan, train
from nightjar.models.pretraining.word_rule import Language, ranked_words
from nightjar.models.pretraining.written import CorpusMessages, written
from nightjar.models.shipped import (
    MADE_FROM,
    NAMES,
    README,
    Figures,
    MadeFrom,
    Recall,
    ngram_name,
    vocabulary_name,
    weights_name,
)
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary, words
from nightjar.wire.errors import CorpusError, UnavailableError
from nightjar.wire.parameters import Vector

MOST_MEASURED = 6_000
"""Messages of people outside on which recall is measured, spread evenly: some 60,000 words, half a minute."""


@dataclass(frozen=True, slots=True)
class PretrainingOptions:
    """What to make; the help of the options explains it."""

    corpus: Path
    out: Path
    before: str | None
    language: str
    seed: int
    source: str
    command: str
    least_people: int = examples.LEAST_PEOPLE
    least_people_of_words: int = word_rule.LEAST_PEOPLE
    names: tuple[str, ...] = NAMES


def pretrain(
    asked: PretrainingOptions,
    say: Callable[[str], None],
    progress: Callable[[str, int, int], None],
    plans: dict[str, PretrainingPlan] = PLANS,
) -> MadeFrom:
    """Make the folder; begun again after a kill, it goes on where it was.

    ``say`` gets a line for people; ``progress`` what is trained, the steps done and all steps, after each step.

    Raises:
        ConfigError: the corpus or the date cannot be used, or a word list is not installed.
        CorpusError: too few people typed the same for anything to be learned.
        UnavailableError: the folder cannot be written.
    """
    return pretrain_on(written(asked.corpus, asked.before), asked, say, progress, plans)


def pretrain_on(
    text: CorpusMessages,
    asked: PretrainingOptions,
    say: Callable[[str], None],
    progress: Callable[[str, int, int], None],
    plans: dict[str, PretrainingPlan] = PLANS,
) -> MadeFrom:
    """As :func:`pretrain`, on text that was read elsewhere.

    Raises:
        ConfigError: a word list is not installed.
        CorpusError: too few people typed the same for anything to be learned.
        UnavailableError: the folder cannot be written.
    """
    say(f"{len(text.texts):,} messages of {len(text.users):,} people; {text.outside_people:,} people are outside")
    ranked = ranked_words(text, Language.load(asked.language), asked.least_people_of_words)
    say(f"{len(ranked):,} words are allowed")
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        figures = {}
        for name in asked.names:
            made = _make(asked, configuration(name), text, ranked, plans[name], say, partial(progress, name))
            if made is not None:
                figures[name] = made
        about = _about(asked, text, figures)
        _write(asked.out / MADE_FROM, msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
        _write(asked.out / README, readme(about, plans).encode())
        for name in asked.names:
            _checkpoint(asked.out, name).unlink(missing_ok=True)
    except OSError as error:
        msg = f"cannot write to {asked.out}: {error}; give a folder that can be written"
        raise UnavailableError(msg) from error
    return about


def _make(
    asked: PretrainingOptions,
    shape: ModelConfiguration,
    text: CorpusMessages,
    ranked: Sequence[str],
    plan: PretrainingPlan,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
) -> Figures | None:
    """Write the files of one configuration, and measure it if there is somebody outside."""
    vocabulary = Vocabulary(tuple(ranked[: shape.max_vocabulary - FIRST_WORD]))
    messages = [vocabulary.encode(message) for message in text.messages]
    ngram = compile_ngram(messages, vocabulary.size, text.people, asked.least_people)
    _write(asked.out / vocabulary_name(shape.name), vocabulary.to_bytes())
    _write(asked.out / ngram_name(shape.name), ngram)
    shared = shared_examples(messages, text.people, shape.sequence_length, asked.least_people)
    if not shared:
        msg = f"no word was typed by {asked.least_people} people after the same words; give a corpus of more people"
        raise CorpusError(msg)
    say(f"{shape.name}: {vocabulary.size:,} word ids, n-gram of {len(ngram):,} bytes, {len(shared):,} examples")
    weights = train(shape, vocabulary.size, shared, plan, asked.seed, _checkpoint(asked.out, shape.name), progress)
    rounded = weights.astype("<f2")
    _write(asked.out / weights_name(shape.name), rounded.tobytes())
    chosen = text.outside[:: -(-len(text.outside) // MOST_MEASURED) or 1]
    outside = [vocabulary.encode(words(message)) for message in chosen]
    if not any(word >= FIRST_WORD for word in chain.from_iterable(outside)):
        return None
    say(f"{shape.name}: measuring on {len(outside):,} messages of people outside")
    compact = read_ngram(ngram, vocabulary.size)
    found = _recall(weights, shape, vocabulary.size, outside)
    whole = train_trigram(messages, vocabulary.size).recall(outside)
    short = recall_of(compact.after, outside)
    return Figures(
        counted=whole.counted,
        weights=_recall(rounded.astype(np.float32), shape, vocabulary.size, outside),
        unrounded=found,
        ngram=Recall(top1=short.top1, top3=short.top3),
        trigram=Recall(top1=whole.top1, top3=whole.top3),
    )


def _recall(weights: Vector, shape: ModelConfiguration, size: int, messages: Sequence[Sequence[int]]) -> Recall:
    from nightjar.models.evaluation import evaluate  # imports TensorFlow

    found = evaluate(weights, shape, size, pack(messages, EVALUATION_ROWS, shape.sequence_length))
    return Recall(top1=found.top1, top3=found.top3)


def _about(asked: PretrainingOptions, text: CorpusMessages, figures: dict[str, Figures]) -> MadeFrom:
    return MadeFrom(
        before=text.before,
        text_sha256=text.text_sha256,
        used_sha256=text.used_sha256,
        source=asked.source,
        command=asked.command,
        seed=asked.seed,
        people=len(text.users),
        messages=len(text.texts),
        words=sum(map(len, text.messages)),
        outside_people=text.outside_people,
        outside_messages=len(text.outside),
        least_people=asked.least_people,
        least_people_of_words=asked.least_people_of_words,
        recall=figures,
    )


def _checkpoint(folder: Path, name: str) -> Path:
    return folder / f"checkpoint-{name}.npz"


def _write(path: Path, data: bytes) -> None:
    replace_file(path, data, READABLE)
