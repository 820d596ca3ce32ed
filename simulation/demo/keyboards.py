"""Recall on the phones' held-out messages, by version and by phone: of the fleet's model and of whole keyboards.

The keyboard mixes the model with the n-gram model of public text and with the user's history; it is also measured
without the fleet's model. The messages are typed again word by word, and the keyboards learn from each that is sent.
Of the first and the last version, the keystrokes that the keyboard saves are counted, too, letter by letter, as devices
and benchmarks count them (:mod:`nightjar.edge_agent.core.keystrokes`). Personal models are left out. All this runs
without TensorFlow, in a child process, because it takes seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from nightjar.edge_agent.core.keystrokes import Replayed, replay
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.core.own_history import Blended
from nightjar.edge_agent.core.prediction import weights_of
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.ports import Floats, Learner, Predictor
from nightjar.edge_agent.shell.keyboard_evaluation import BesideModel, beside_model, keyboard_around
from nightjar.edge_agent.shell.keyboard_model import KeyboardModel
from nightjar.edge_agent.shell.model_files import exported_model
from nightjar.edge_agent.shell.tflite import TfliteProgram, load_program
from nightjar.models import corpora
from nightjar.models.batches import Batches, pack
from nightjar.models.compact_ngram import CompactNgram, read_ngram
from nightjar.models.folder import NGRAM, VOCABULARY
from nightjar.models.manifest import Manifest
from nightjar.models.ngram import Trigram
from nightjar.models.ranking import ranks
from nightjar.models.vocabulary import BOS, FIRST_WORD, Vocabulary, words
from nightjar.simulation.demo.configuration import HELD_OUT
from nightjar.simulation.demo.reading import artifact
from nightjar.wire.parameters import Vector, weights_from_bytes

MOST_VERSIONS, MOST_PHONES, MOST_WORDS = 11, 8, 150
"""At most so many versions (the first, the last, and others between), phones, and words of a phone are measured: a few
seconds with a small model."""


class SuggestionRecall(msgspec.Struct, frozen=True):
    """Shares of the typed words, 0 to 1, that were the best suggestion and among the best three."""

    top1: float
    top3: float


class KeyboardRecall(msgspec.Struct, frozen=True):
    """Recall by version, all on the same words."""

    versions: list[int]
    model: list[SuggestionRecall]  # of each version alone
    keyboard: list[SuggestionRecall]  # of the keyboard with each version
    trigram_history: SuggestionRecall  # of the keyboard without any
    words: int  # number of the words
    saved_first: float  # share of the keystrokes, 0 to 1, that the keyboard saves with the first version
    saved_last: float  # with the last one
    saved_without: float  # without any


class NgramPredictor:
    """An n-gram model alone. Implements :class:`nightjar.edge_agent.ports.Predictor`."""

    version = None

    def __init__(self, vocabulary: Vocabulary, ngram: CompactNgram | Trigram) -> None:
        self.vocabulary = vocabulary
        self._ngram = ngram

    def scores(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of the next word, (V,) float32."""
        before, last = [BOS, BOS, *self.vocabulary.encode(finished[-2:])][-2:]
        return np.log(np.maximum(self._ngram.after(before, last), 1e-30)).astype(np.float32)


T = TypeVar("T")


class _User(NamedTuple):
    """Past messages of a phone, and those that are typed again."""

    typed: list[str]
    held_out: list[str]


def spread(items: Sequence[T], most: int = MOST_VERSIONS) -> list[T]:
    """The first, the last, and evenly spread ones between.

    >>> spread(range(101), 5), spread([0, 1, 4], 5)
    ([0, 25, 50, 75, 100], [0, 1, 4])
    """
    places = np.linspace(0, len(items) - 1, min(most, len(items)))
    return [items[int(place)] for place in places]


def recall_by_version(folder: Path, url: str, manifests: Mapping[int, str]) -> KeyboardRecall:
    """Measure versions of a run, given the sha256 of their manifests by version.

    Raises:
        UnavailableError: a version cannot be fetched.
    """
    vocabulary = Vocabulary.from_bytes((folder / "model" / VOCABULARY).read_bytes())
    ngram = read_ngram((folder / "model" / NGRAM).read_bytes(), vocabulary.size)
    beside = beside_model(exported_model(folder / "model"), vocabulary)
    held_out = corpora.load(str(folder / HELD_OUT), 0).users
    users = [
        _User((folder / phone / "messages.txt").read_text("utf-8").splitlines(), _first_words(messages))
        for phone, messages in list(held_out.items())[:MOST_PHONES]
    ]
    model, keyboard, saved = [], [], []
    for number, sha256 in enumerate(manifests.values(), 1):
        manifest = Manifest.decode(artifact(url, sha256))
        vector = weights_from_bytes(artifact(url, manifest.weights.sha256), manifest.layout)
        read = Reader(KeyboardModel(weights_of(vector, manifest.layout, vocabulary.size), vocabulary, manifest.version))
        model.append(_mean([_counts(read, user.held_out) for user in users]))
        blended = (Blended(Mixture(read, ngram, texts=user.typed), user.typed) for user in users)
        keyboard.append(_mean([_counts(each, user.held_out) for each, user in zip(blended, users, strict=True)]))
        if number in {1, len(manifests)}:
            saved.append(_saved([(beside.mixed(read, user.typed), user) for user in users], beside))
    without = [_counts(Blended(NgramPredictor(vocabulary, ngram), user.typed), user.held_out) for user in users]
    counted = sum(number for number, _, _ in without)
    saved_without = _saved([(NgramPredictor(vocabulary, ngram), user) for user in users], beside)
    return KeyboardRecall(list(manifests), model, keyboard, _mean(without), counted, saved[0], saved[-1], saved_without)


def _saved(keyboards: Sequence[tuple[Predictor, _User]], beside: BesideModel) -> float:
    """Share of the keystrokes of all users that their keyboards save, each with its predictor."""
    total = Replayed()
    for predictor, user in keyboards:
        keyboard = keyboard_around(predictor, beside, user.typed)
        for message in user.held_out:
            total += replay(keyboard.suggest, message)
            keyboard.send(message)
    return total.saved / max(1, total.letters)


def _first_words(messages: Sequence[str]) -> list[str]:
    """The first messages, until they have enough words."""
    kept, counted = [], 0
    for message in messages:
        if counted >= MOST_WORDS:
            break
        kept.append(message)
        counted += len(words(message))
    return kept


def _counts(predictor: Predictor, messages: Sequence[str]) -> tuple[int, int, int]:
    """Number of words of the vocabulary, and of those that were the best, and among the best three, suggestions."""
    counted = top1 = top3 = 0
    for message in messages:
        typed = words(message)
        for place, word in enumerate(predictor.vocabulary.encode(typed)):
            if word < FIRST_WORD:
                continue
            scores = predictor.scores(typed[:place])[FIRST_WORD:]
            rank = int(ranks(scores[None], np.array([word - FIRST_WORD]))[0])
            counted, top1, top3 = counted + 1, top1 + (rank < 1), top3 + (rank < 3)
        if isinstance(predictor, Learner):
            predictor.learn(message)
    return counted, top1, top3


def _mean(counts: Sequence[tuple[int, int, int]]) -> SuggestionRecall:
    counted, top1, top3 = (sum(column) for column in zip(*counts, strict=True))
    return SuggestionRecall(top1 / max(1, counted), top3 / max(1, counted))


def recall_by_phone(folder: Path, url: str, manifest: str) -> dict[str, tuple[float, float]]:
    """Top-1 recall of the first and of a later version on each phone's held-out messages, as the program counts it.

    By phone, because one can dominate a mean over all words.

    Returns:
        phone -> recall (before, after), 0 to 1; phones without a counted target are skipped.

    Raises:
        UnavailableError: the later version cannot be fetched.
    """
    first = exported_model(folder / "model")
    later = Manifest.decode(artifact(url, manifest))
    weights = weights_from_bytes(artifact(url, later.weights.sha256), later.layout)
    vocabulary = Vocabulary.from_bytes(first.vocabulary.read_bytes())
    held_out: dict[str, Batches] = {}
    for phone, messages in corpora.load(str(folder / HELD_OUT), 0).users.items():
        ids = [vocabulary.encode(words(message)) for message in messages]
        batches = pack(ids, later.batch_rows, later.sequence_length)
        if batches.counted_targets:
            held_out[phone] = batches
    program = load_program(first)
    found: dict[str, list[float]] = defaultdict(list)
    for version in (program.save(), weights):
        for phone, batches in held_out.items():
            found[phone].append(_top1(program, version, batches))
    return {phone: (before, after) for phone, (before, after) in found.items()}


def _top1(program: TfliteProgram, weights: Vector, batches: Batches) -> float:
    program.restore(weights)
    scores = [program.evaluate(x, y) for x, y in batches]
    return sum(s.top1 for s in scores) / sum(s.counted for s in scores)
