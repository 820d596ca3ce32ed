"""Counts how many keystrokes this device's whole keyboard saves on the messages that it holds back from training.

It is counted with the version of a session and with the announced one that the keyboard has, as
:mod:`nightjar.edge_agent.core.keystrokes` does. Both keyboards have history, own words and weights of the mixture from
the messages that are not held back, the n-gram model and the lexicons of their version, and the fleet's weights: the
personal ones were chosen on the messages that are held back. The held-back messages are not learned from.

The training process imports this only when the memory of the training is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from nightjar.edge_agent.core.keystrokes import Replayed, newest, replayed
from nightjar.edge_agent.core.mixture import Mixture
from nightjar.edge_agent.keyboard.floor import shares_in, speaks
from nightjar.edge_agent.keyboard.reader import Reader
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Predictor
from nightjar.edge_agent.session import SessionTask
from nightjar.edge_agent.shell.keyboard_model import (
    common_words_of,
    load_keyboard_model,
    read_lexicon_of,
    read_ngram_of,
)
from nightjar.models.keyboard import held_out
from nightjar.models.manifest import KEYBOARD
from nightjar.models.vocabulary import Vocabulary
from nightjar.wire.frame import KeyboardEvaluation

MOST_WORDS = 500
"""Newest held-back words that are typed again, with each version: seconds on a phone. The difference of two versions on
the same words varies little, so more words of one device say less than those of another device."""
MOST_S = 20.0
"""Longest time of the replay with the first version. What a slower device has counted by then must be enough, because
the report has a deadline."""


def evaluate_keyboard(
    task: SessionTask, should_stop: Callable[[], bool], now_s: Callable[[], float]
) -> KeyboardEvaluation | None:
    """Implements :data:`nightjar.edge_agent.session.EvaluateKeyboard`.

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
    ours = _counted(base, typed, messages, lambda: should_stop() or now_s() > until_s)
    theirs = ours
    if announced.sha256 != base.sha256:
        theirs = _counted(announced, typed, messages[: len(ours)], should_stop)
    if should_stop() or len(theirs) < len(ours):
        return None
    total, compared = sum(ours, Replayed()), sum(theirs, Replayed())
    if not total.letters:
        return None
    return KeyboardEvaluation(total.letters, total.saved, announced.manifest.version, compared.saved)


def _counted(
    model: Model, typed: Sequence[str], messages: Sequence[str], should_stop: Callable[[], bool]
) -> list[Replayed]:
    return replayed(whole_keyboard(model, typed).suggest, messages, should_stop)


def whole_keyboard(model: Model, typed: Sequence[str]) -> WholeKeyboard:
    """The keyboard with the weights of a version, and what it learned from messages, oldest first.

    Raises:
        RemoteProtocolError: the version's files cannot be used.
        UnavailableError: they are gone.
    """
    reader = Reader(load_keyboard_model(model))
    mixture = Mixture(reader, read_ngram_of(model), common_words_of(model, reader.vocabulary), typed)
    return keyboard_around(mixture, model, typed)


def keyboard_around(predictor: Predictor, model: Model, typed: Sequence[str]) -> WholeKeyboard:
    """The keyboard with any predictor, what it learned from messages, and the lexicons of a version."""
    return WholeKeyboard(predictor, typed, partial(read_lexicon_of, model), _language(model, predictor.vocabulary))


def _language(model: Model, vocabulary: Vocabulary) -> str:
    """The first language with a lexicon that a vocabulary is of; empty if there is none."""
    for language in sorted(model.lexicons):
        listed = read_lexicon_of(model, language)
        if listed is not None and speaks(shares_in(vocabulary, listed)):
            return language
    return ""
