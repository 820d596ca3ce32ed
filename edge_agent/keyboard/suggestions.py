"""Three words for what is being typed.

The text before the caret is cut into the finished words of the current sentence and the prefix of the word being typed.
The model has read the finished words; its scores rank the next word or, with a prefix, the words that begin with it.
States are kept by the words that led to them, so a key press costs no model step inside a word and one at its end.

This module does not learn, does not store what is typed, and knows nothing of the page. Which model runs behind
:class:`StepModel`, and on which runtime, is the agent's affair.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from models.vocabulary import BOS, FIRST_WORD, OOV, Vocabulary, words
from wire.errors import LocalProtocolError

Scores = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
State = TypeVar("State")

NO_MODEL_YET = "No model yet: this device fetches one as soon as the coordinator can be reached."

# Far more words than a sentence has, so that deleting it again hits a kept state at every word; 64 score vectors of
# the 10,000-word model are 2.6 MB.
KEPT_STATES = 64


class StepModel(Protocol[State]):
    """A model that reads one word at a time.

    ``State`` is opaque here. A step must leave the state it was given, and arrays it returned before, as they were.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""

    @property
    def version(self) -> int:
        """Which version of the model this is."""

    def start(self) -> State:
        """The state before anything was read."""

    def step(self, token: int, state: State) -> tuple[Scores, State]:
        """Read one token.

        Returns:
            scores: (V,) float32, higher is likelier as the next word; the specials are never suggested.
            state: what to pass with the next token.
        """


@dataclass(frozen=True, slots=True)
class Suggestions:
    """What the keyboard offers.

    Attributes:
        words: best first, at most as many as were asked for.
        completing: the words replace the one being typed; otherwise they come after the text.
        version: of the model that chose them; None without a model.
        reason: why there are no words, for the person; empty otherwise.
    """

    words: tuple[str, ...]
    completing: bool
    version: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Typed:
    """Text before the caret, as the model sees it.

    Attributes:
        finished: words of the current sentence, in lower case.
        prefix: what there is of the word being typed, in the case it was typed.
    """

    finished: tuple[str, ...]
    prefix: str


# A full stop inside "3.14" or "e.g" ends nothing; one before a space, or at the caret, does.
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_PREFIX = re.compile(r"[A-Za-z0-9']*\Z")


def read_typed(text: str) -> Typed:
    """Cut the text before the caret into finished words and a prefix.

    >>> read_typed("Fine. And how are yo")
    Typed(finished=('and', 'how', 'are'), prefix='yo')
    >>> read_typed("Fine.")
    Typed(finished=(), prefix='')
    """
    sentence = _SENTENCE_END.split(text)[-1]
    prefix = _PREFIX.search(sentence)
    start = prefix.start() if prefix else len(sentence)
    return Typed(tuple(words(sentence[:start])), sentence[start:])


def in_case_of(word: str, prefix: str) -> str:
    """Write a word in the case in which its prefix was typed.

    >>> in_case_of("hello", "he"), in_case_of("hello", "He"), in_case_of("hello", "HE"), in_case_of("i'm", "I")
    ('hello', 'Hello', 'HELLO', "I'm")
    """
    if len(prefix) > 1 and prefix.isupper():
        return word.upper()
    if prefix[:1].isupper():
        return word[:1].upper() + word[1:]
    return word


def best(scores: Scores, candidates: Ids, count: int) -> Ids:
    """The highest-scoring candidates, best first; of equal ones the lower id, which is the commoner word.

    >>> best(np.float32([0, 3, 9, 3, np.nan]), np.arange(1, 5), 2).tolist()
    [2, 1]

    Args:
        scores: (V,) float32; what is not finite is never chosen.
        candidates: (k,) int64, ascending ids.
        count: how many at most.

    Returns:
        (at most count,) int64 ids.
    """
    candidates = candidates[np.isfinite(scores[candidates])]
    if len(candidates) > count:
        # Sorting only what can win: a whole sort of 10,000 scores costs more than the rest of a key press.
        least = np.partition(scores[candidates], -count)[-count]
        candidates = candidates[scores[candidates] >= least]
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order[:count]]


class _Loaded(Generic[State]):
    """One model, its words in alphabetical order, and the states it was in lately."""

    def __init__(self, model: StepModel[State]) -> None:
        self.model = model
        self.vocabulary = model.vocabulary
        alphabetical = sorted(enumerate(self.vocabulary.words, FIRST_WORD), key=lambda pair: pair[1])
        self._words = [word for _, word in alphabetical]
        self._ids = np.array([number for number, _ in alphabetical], np.int64)
        self._all_ids = np.arange(FIRST_WORD, self.vocabulary.size, dtype=np.int64)
        self._states: OrderedDict[tuple[int, ...], tuple[Scores, State]] = OrderedDict()

    def scores_after(self, finished: tuple[str, ...]) -> Scores:
        """Scores of the next word, (V,) float32, at the price of one step for each word not read before."""
        tokens = (BOS, *self.vocabulary.encode(finished))
        known = next((n for n in range(len(tokens), 0, -1) if tokens[:n] in self._states), 0)
        if known:
            self._states.move_to_end(tokens[:known])
            scores, state = self._states[tokens[:known]]
        else:
            state = self.model.start()
        for read in range(known, len(tokens)):
            scores, state = self.model.step(tokens[read], state)
            if scores.shape != (self.vocabulary.size,):
                msg = f"expected one score for each of {self.vocabulary.size} word ids, got shape {scores.shape}"
                raise LocalProtocolError(msg)
            self._states[tokens[: read + 1]] = scores, state
            if len(self._states) > KEPT_STATES:
                self._states.popitem(last=False)
        return scores

    def next_words(self, scores: Scores, count: int) -> list[str]:
        return [self.vocabulary.word(int(number)) for number in best(scores, self._all_ids, count)]

    def completions(self, prefix: str, scores: Scores, count: int) -> list[str]:
        """Words that begin as typed; then what was typed, if it is no known word; then words that begin alike.

        The last group forgives a slip of the finger near the end: more than half of the prefix must agree.
        """
        typed = prefix.lower()
        found = self._beginning_with(typed, scores, count)
        if self.vocabulary.id_of(typed) == OOV:
            found.append(typed)
        for kept in range(len(typed) - 1, len(typed) // 2, -1):
            if len(found) >= count:
                break
            alike = self._beginning_with(typed[:kept], scores, count + len(found))
            found += [word for word in alike if word not in found]
        return [prefix if word == typed else in_case_of(word, prefix) for word in found[:count]]

    def _beginning_with(self, prefix: str, scores: Scores, count: int) -> list[str]:
        start = bisect_left(self._words, prefix)
        stop = bisect_left(self._words, prefix + "{")  # "{" follows "z": past every word with this prefix
        ids = best(scores, np.sort(self._ids[start:stop]), count)
        return [self.vocabulary.word(int(number)) for number in ids]


class Suggester(Generic[State]):
    """Suggests words from whichever model the agent holds; safe to call from several threads.

    Args:
        model: the model, or None as long as there is none.
    """

    def __init__(self, model: StepModel[State] | None = None) -> None:
        self._lock = threading.Lock()
        self._loaded = None if model is None else _Loaded(model)

    @property
    def version(self) -> int | None:
        """Version of the model in use; None without one."""
        loaded = self._loaded
        return None if loaded is None else loaded.model.version

    def replace_model(self, model: StepModel[State]) -> None:
        """Use this model from the next suggestion on; one that is being computed is finished with the old model."""
        loaded = _Loaded(model)
        with self._lock:
            self._loaded = loaded

    def suggest(self, text: str, count: int = 3) -> Suggestions:
        """Suggest words for the text before the caret.

        Args:
            text: as typed; only the sentence the caret is in matters.
            count: how many words to offer at most.

        Returns:
            The words; none, and the reason, as long as there is no model.

        Raises:
            LocalProtocolError: a count below 1, or a model whose scores do not fit its vocabulary.
        """
        if count < 1:
            msg = f"expected to suggest at least 1 word, got {count}"
            raise LocalProtocolError(msg)
        typed = read_typed(text)
        completing = typed.prefix != ""
        with self._lock:
            loaded = self._loaded
            if loaded is None:
                return Suggestions((), completing, None, NO_MODEL_YET)
            scores = loaded.scores_after(typed.finished)
        found = loaded.completions(typed.prefix, scores, count) if completing else loaded.next_words(scores, count)
        return Suggestions(tuple(found), completing, loaded.model.version)
