"""Word lists that suggestions are chosen from, with a log-probability for each word.

There are three: the vocabulary of a model, the user's own words outside it, and the lexicon of a language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import structlog

from nightjar.edge_agent.keyboard.common_words import Unigram
from nightjar.edge_agent.keyboard.glide import Keys, Paths
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.lexicon import Lexicon, Numbers, PackedWords
from nightjar.edge_agent.ports import Floats, Learner, Predictor
from nightjar.models.lexicon import WordList
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.wire.errors import NightjarError

OWN_SHARE = 0.06
"""Share of typed words outside a vocabulary of 10,000: 6.2 % of chat (Ubuntu IRC)."""
SPOKEN_SHARE = 0.75
"""A model speaks a language whose lexicon has this share of the model's commonest words. Measured on four English
texts: 0.90 to 0.97 for English, up to 0.61 for other languages."""
_LOOKED_AT = 500

log = structlog.get_logger()


def best(scores: Floats, candidates: Numbers, count: int) -> Numbers:
    """The highest-scoring candidates, best first; ties go to the lower id, which is the more common word.

    >>> best(np.float32([0, 3, 9, 3, np.nan]), np.arange(1, 5), 2).tolist()
    [2, 1]

    Args:
        scores: (V,) float32; words with a score that is not finite are never chosen.
        candidates: (k,) int64, ascending ids.
        count: maximum number of words.

    Returns:
        (at most count,) int64 ids.
    """
    candidates = candidates[np.isfinite(scores[candidates])]
    if len(candidates) > count:
        # Sort only the possible winners: sorting all 10,000 scores costs more than the rest of a key press.
        least = np.partition(scores[candidates], -count)[-count]
        candidates = candidates[scores[candidates] >= least]
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order[:count]]


class ScoredWord(NamedTuple):
    """A candidate word, and its log-probability in nats."""

    score: float
    word: str


class Indexed:
    """Words with an index over them."""

    def __init__(self, known: Sequence[str], *, in_order: bool = False) -> None:
        self.known = known
        self.lexicon = Lexicon(known, in_order=in_order)
        self._paths: tuple[str, Paths] | None = None

    def top(self, scores: Floats, among: Numbers, count: int) -> list[ScoredWord]:
        """The best of some words, by their scores."""
        return [ScoredWord(float(scores[n]), self.known[n]) for n in best(scores, among, count).tolist()]

    def glided(self, scores: Floats, glide: Floats, keys: Keys, count: int) -> list[ScoredWord]:
        """The best words for a line over the keys: their scores less what the line costs."""
        letters = "".join(keys)
        if self._paths is None or self._paths[0] != letters:
            self._paths = letters, Paths(self.known, letters)
        numbers, costs = self._paths[1].costs(glide, np.array([*keys.values()], np.float32))
        meant = scores[numbers] - costs
        ranked = best(meant, np.arange(len(numbers), dtype=np.int64), count).tolist()
        return [ScoredWord(float(meant[at]), self.known[numbers[at]]) for at in ranked]


class ModelWords:
    """A predictor with everything that can be precomputed, and its last scores."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.vocabulary = predictor.vocabulary
        self.words = Indexed(self.vocabulary.words)
        self.everything = np.arange(len(self.vocabulary.words), dtype=np.int64)
        self.failed = ""
        self._last: tuple[tuple[str, ...], Floats] | None = None

    def learn(self, text: str) -> None:
        """Let the predictor learn from a message that was sent, if it can."""
        if isinstance(self.predictor, Learner):
            self.predictor.learn(text)
            self._last = None

    def log_probabilities(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of all words without the special tokens, (V - 4,) float32.

        Cached, because every letter of a word repeats the same request.
        """
        request = tuple(finished)
        if self._last is None or self._last[0] != request or self.failed:
            self._last = request, self._ask(request)
        return self._last[1]

    def _ask(self, finished: tuple[str, ...]) -> Floats:
        try:
            scores = self.predictor.scores(finished)[FIRST_WORD:]
            self.failed = ""
        except NightjarError as error:
            if not self.failed:
                log.warning("prediction_failed", model_version=self.predictor.version, error=str(error))
            self.failed = f"The model does not answer ({error.code}); these are common words."
            scores = Unigram(self.vocabulary).scores(finished)[FIRST_WORD:]
        finite = scores[np.isfinite(scores)]
        if not len(finite):
            return Unigram(self.vocabulary).scores(finished)[FIRST_WORD:]
        most = finite.max()
        normalized: Floats = scores - np.float32(most + np.log(np.exp(finite - most).sum()))
        return normalized


class OwnWords:
    """The user's own words with their shares of the typed words; words that are now in the vocabulary are left out."""

    def __init__(self, own: Iterable[OwnWord], knows: Callable[[str], bool]) -> None:
        self.counted = tuple(one for one in own if not knows(one.word))
        self.written = {one.word: one.written for one in self.counted}
        self.words = Indexed([one.word for one in self.counted])
        counts = np.array([one.count for one in self.counted], np.float32)
        self.log_shares: Floats = np.log(OWN_SHARE * counts / max(1.0, float(counts.sum()))).astype(np.float32)
        self.everything = np.arange(len(counts), dtype=np.int64)


class LanguageWords:
    """The lexicon of a language, with the share of each word in typed text.

    Words outside the model's vocabulary divide the share of unknown words among them. Words inside it keep their
    share in general text, which matters when a model that has seen little text underrates a common word.

    Attributes:
        code: ISO 639 code.
        shared: share of the vocabulary's commonest words that the lexicon has, 0 to 1.
    """

    def __init__(self, listed: WordList, vocabulary: Vocabulary) -> None:
        self.code = listed.language
        self.words = Indexed(PackedWords(listed.text), in_order=True)
        known = self.words.lexicon.numbers_of(vocabulary.words)
        lacking = 1.0 - float(np.exp(listed.log_shares[known]).sum())
        self.log_shares: Floats = listed.log_shares + np.float32(np.log(OWN_SHARE))
        in_vocabulary = self.log_shares[known]
        self.log_shares -= np.float32(np.log(max(lacking, OWN_SHARE)))
        self.log_shares[known] = in_vocabulary
        commonest = vocabulary.words[:_LOOKED_AT]
        self.shared = len(self.words.lexicon.numbers_of(commonest)) / max(1, len(commonest))


class Lexicons:
    """The lexicon of the typed language beside the vocabulary in use; read when either changes.

    ``read`` reads the lexicon of a language, given its ISO 639 code; it returns None if there is none.
    """

    def __init__(self, read: Callable[[str], WordList | None]) -> None:
        self._read = read
        self._held: tuple[str, Vocabulary, LanguageWords | None] | None = None
        self._spoken: dict[str, bool] = {}

    def renewed(self, read: Callable[[str], WordList | None] | None, vocabulary: Vocabulary | None) -> Lexicons:
        """The lexicons beside a new model; the one in use is read now, and not at the next key press.

        Without ``read`` the lexicons in use stay; ``vocabulary`` is None without a model.
        """
        lexicons = Lexicons(read or self._read)
        if vocabulary is not None and self._held is not None:
            lexicons.beside(vocabulary, self._held[0])
        return lexicons

    def beside(self, vocabulary: Vocabulary, language: str) -> LanguageWords | None:
        """The words of a language, given its tag; None without a lexicon."""
        code = language.lower().split("-")[0]
        if self._held is None or self._held[:2] != (code, vocabulary):
            listed = self._read(code) if code else None
            self._held = code, vocabulary, None if listed is None else LanguageWords(listed, vocabulary)
        return self._held[2]

    def spoken_by(self, vocabulary: Vocabulary, language: str) -> bool:
        """Whether the model's vocabulary is of a language; nothing speaks against it where there is no lexicon."""
        if language not in self._spoken:
            beside = self.beside(vocabulary, language)
            self._spoken[language] = beside is None or beside.shared >= SPOKEN_SHARE
        return self._spoken[language]


class Sources(NamedTuple):
    """What words are chosen from, after some finished words.

    Attributes:
        model: the words of the model.
        scores: their log-probabilities after the finished words.
        own: the user's own words.
        language: the words of the typed language; None without a lexicon.
    """

    model: ModelWords
    scores: Floats
    own: OwnWords
    language: LanguageWords | None

    def parts(self) -> list[tuple[Indexed, Floats]]:
        """The word lists, and the log-probability of each word."""
        parts = [(self.model.words, self.scores), (self.own.words, self.own.log_shares)]
        return parts if self.language is None else [*parts, (self.language.words, self.language.log_shares)]


def each_once(ranked: Iterable[ScoredWord]) -> list[ScoredWord]:
    """The candidates without repeated words; the first of each word stays."""
    first: dict[str, ScoredWord] = {}
    for one in ranked:
        first.setdefault(one.word, one)
    return list(first.values())
