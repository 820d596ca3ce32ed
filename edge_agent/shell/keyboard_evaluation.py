"""Counts how many keystrokes this device's whole keyboard saves on the messages that it holds back from training.

It is counted with the version of a session and with the announced one that the keyboard has, as
:mod:`nightjar.edge_agent.core.keystrokes` does. Both keyboards have history, own words and weights of the mixture from
the messages that are not held back, the n-gram model and the lexicons of their version, and the fleet's weights: the
personal ones were chosen on the messages that are held back. The held-back messages are not learned from.

The training process imports this only when the memory of the training is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from nightjar.edge_agent.core.keystrokes import Replayed, newest, replay
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.keyboard.floor import floor, shares_in, speaks
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Floats, Predictor
from nightjar.edge_agent.session.task import SessionTask
from nightjar.edge_agent.shell.keyboard_model import load_keyboard_model, read_lexicon_of, read_ngram_of
from nightjar.models.compact_ngram import CompactNgram
from nightjar.models.keyboard import held_out
from nightjar.models.lexicon import WordList
from nightjar.models.manifest import KEYBOARD
from nightjar.models.vocabulary import Vocabulary, words
from nightjar.wire.frame import KeyboardEvaluation

MOST_WORDS = 500
"""Newest held-back words that are typed again, with each version: seconds on a phone. The difference of two versions on
the same words varies little, so more words of one device say less than those of another device."""
FEWEST_WORDS = 50
"""A device that was stopped before says nothing: it would count as much as one that typed all words again."""
MOST_S = 40.0
"""Longest time of the replay. What a slower device has counted by then must be enough, because the report has a
deadline."""


def evaluate_keyboard(
    task: SessionTask, should_stop: Callable[[], bool], now_s: Callable[[], float]
) -> KeyboardEvaluation | None:
    """Implements :data:`nightjar.edge_agent.session.task.EvaluateKeyboard`.

    Each message is typed again with both versions before the next one, so what was counted before a stop is paired.

    Raises:
        RemoteProtocolError: the files of a version cannot be used.
        UnavailableError: they are gone.
    """
    base, announced = task.model, task.announced
    if announced is None or base.manifest.task_type != KEYBOARD:
        return None
    if announced.manifest.vocabulary != base.manifest.vocabulary:
        return None  # the keyboard has a model of another task
    typed, held = held_out(task.source.texts, task.assignment.plan.evaluation_share)
    messages, until_s = newest(held, MOST_WORDS)[::-1], now_s() + MOST_S
    versions = [base] if announced.sha256 == base.sha256 else [base, announced]
    keyboards = [keyboard_of(version, typed) for version in versions if not should_stop()]
    ours = theirs = Replayed()
    typed_again = 0
    for message in messages:
        if should_stop() or now_s() > until_s:
            break
        counts = [replay(keyboard.suggest, message) for keyboard in keyboards]
        ours, theirs = ours + counts[0], theirs + counts[-1]
        typed_again += len(words(message))
    if typed_again < min(FEWEST_WORDS, sum(len(words(message)) for message in messages)) or not typed_again:
        return None
    return KeyboardEvaluation(ours.letters, ours.saved, announced.manifest.version, theirs.saved)


class BesideModel(NamedTuple):
    """What a keyboard has beside the weights of a version.

    Attributes:
        lexicons: language -> lexicon.
        floor: (V,) float32, the common words of the languages that the model speaks.
        language: one of them that has a lexicon; empty if there is none.
    """

    ngram: CompactNgram | None
    lexicons: Mapping[str, WordList]
    floor: Floats | None
    language: str

    def mixed(self, predictor: Predictor, typed: Sequence[str]) -> Mixture:
        """A predictor mixed with the others, with the weights that suit messages, oldest first."""
        return Mixture(predictor, self.ngram, self.floor, typed)


def beside_model(model: Model, vocabulary: Vocabulary) -> BesideModel:
    """Read what came with a version of this vocabulary; what did not come or cannot be used is left out."""
    read = {language: read_lexicon_of(model, language) for language in sorted(model.lexicons)}
    lexicons = {language: listed for language, listed in read.items() if listed is not None}
    spoken = (language for language, listed in lexicons.items() if speaks(shares_in(vocabulary, listed)))
    return BesideModel(read_ngram_of(model), lexicons, floor(vocabulary, lexicons.values()), next(spoken, ""))


def keyboard_of(model: Model, typed: Sequence[str]) -> WholeKeyboard:
    """The keyboard with a version and what it learned from messages, oldest first."""
    reader = Reader(load_keyboard_model(model))
    beside = beside_model(model, reader.vocabulary)
    return keyboard_around(beside.mixed(reader, typed), beside, typed)


def keyboard_around(predictor: Predictor, beside: BesideModel, typed: Sequence[str]) -> WholeKeyboard:
    """The keyboard with a predictor, what it learned from messages, oldest first, and lexicons."""
    return WholeKeyboard(predictor, typed, beside.lexicons.get, beside.language)
