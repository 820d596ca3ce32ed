"""Word lists that suggestions are chosen from, with a log-probability for each word.

There are three: the vocabulary of a model, the user's own words outside it, and the lexicon of a language.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import structlog

from nightjar.edge_agent.keyboard import correction
from nightjar.edge_agent.keyboard.common_words import LANGUAGES, Unigram, code_of
from nightjar.edge_agent.keyboard.floor import shares_in, speaks
from nightjar.edge_agent.keyboard.glide import Keys, Paths
from nightjar.edge_agent.keyboard.learning import LEARNED_FROM, OwnWord
from nightjar.edge_agent.keyboard.lexicon import Lexicon, Numbers, PackedWords
from nightjar.edge_agent.keyboard.spelling import Spelling
from nightjar.edge_agent.ports import Floats, Learner, Predictor
from nightjar.models.lexicon import WordList, fold
from nightjar.models.vocabulary import FIRST_WORD, OOV, Vocabulary
from nightjar.wire.errors import NightjarError

UNLISTED_SHARE = 0.08
"""Share of typed words outside a vocabulary where the predictor foresees none."""
OWN_WORDS, DISCOUNT = 50.0, 0.5
"""New words outside the vocabulary get as much as so many typed ones, and in addition what half a time of each own word
gets. So a word that was typed twice is no rival of one that was typed twenty times (Pitman and Yor 1997)."""
LEAST_LACKING = 0.06
"""Least share of a language that a vocabulary is taken to lack: a lexicon that it has whole would give its last words
everything."""
FLOOR_SHARE = 0.25
"""Share of common words in general text that they keep where a slip is looked for, whatever the model says."""
LEAST_WORDS = 1_000
"""A lexicon with fewer words says nothing about spelling."""
OUTSIDE = 16
"""Commonest words outside the vocabulary that are looked at as next words."""

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
        self._numbers: tuple[Collection[str], Numbers] | None = None

    def numbers_of(self, words: Collection[str]) -> Numbers:
        """Ids of some words, ascending; those of the last collection are kept."""
        if self._numbers is None or self._numbers[0] is not words:
            self._numbers = words, self.lexicon.numbers_of(words)
        return self._numbers[1]

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


class NextWord(NamedTuple):
    """What a predictor says of the next word.

    Attributes:
        scores: (V - 4,) float32, log-probability of each word if it is one of the vocabulary.
        unlisted: probability that it is none, above 0 and below 1.
    """

    scores: Floats
    unlisted: float


class ModelWords:
    """A predictor with everything that can be precomputed, and its last answer."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.vocabulary = predictor.vocabulary
        self.words = Indexed(self.vocabulary.words)
        self.everything = np.arange(len(self.vocabulary.words), dtype=np.int64)
        self.failed = ""
        self._last: tuple[tuple[str, ...], NextWord] | None = None

    def learn(self, text: str) -> None:
        """Let the predictor learn from a message that was sent, if it can."""
        if isinstance(self.predictor, Learner):
            self.predictor.learn(text)
            self._last = None

    def after(self, finished: Sequence[str]) -> NextWord:
        """The next word. Cached, because every letter of a word repeats the same request."""
        request = tuple(finished)
        if self._last is None or self._last[0] != request or self.failed:
            self._last = request, self._ask(request)
        return self._last[1]

    def _ask(self, finished: tuple[str, ...]) -> NextWord:
        try:
            scores = self.predictor.scores(finished)
            self.failed = ""
        except NightjarError as error:
            if not self.failed:
                log.warning("prediction_failed", model_version=self.predictor.version, error=str(error))
            self.failed = f"The model does not answer ({error.code}); these are common words."
            scores = Unigram(self.vocabulary).scores(finished)
        if not np.isfinite(scores[FIRST_WORD:]).any():
            scores = Unigram(self.vocabulary).scores(finished)
        known = scores[FIRST_WORD:]
        finite = known[np.isfinite(known)]
        most = finite.max()
        total = most + np.log(np.exp(finite - most).sum())
        rest = np.exp(min(float(scores[OOV] - total), 9.0)) if np.isfinite(scores[OOV]) else 0.0
        return NextWord(known - np.float32(total), float(rest / (1.0 + rest)) or UNLISTED_SHARE)


class OwnWords:
    """The user's own words and how often each was typed; words that are now in the vocabulary are left out.

    ``is_slip`` says of a word whether it is rather a slip of a common one.

    Attributes:
        learned: number of the words that are no slips. Those come first; the others only complete their own beginning.
        share: their share of the words outside the vocabulary, from 0 to below 1. A few words that were typed twice are
            hardly evidence that the next such word is one of them, so the share grows with what was typed.
        forgotten: words that the person wants to be offered no more; typing one brings it back.
    """

    def __init__(
        self,
        own: Iterable[OwnWord],
        knows: Callable[[str], bool],
        is_slip: Callable[[OwnWord], bool] = lambda _: False,
    ) -> None:
        own = tuple(own)
        self.forgotten = frozenset(one.word for one in own if one.count == 0)
        unknown = [one for one in own if one.count > 0 and not knows(one.word)]
        learned = {one.word for one in unknown if one.count >= LEARNED_FROM and not is_slip(one)}
        self.counted = sorted(unknown, key=lambda one: (one.word not in learned, -one.count))
        self.learned = len(learned)
        self.written = {one.word: one.written for one in self.counted}
        self.words = Indexed([one.word for one in self.counted])
        counts = np.array([one.count for one in self.counted], np.float32)
        shares = (counts - np.float32(DISCOUNT)) / np.float32(counts.sum() + OWN_WORDS)
        self.share = float(shares.sum())
        self.log_shares: Floats = np.log(shares)
        self.next = np.arange(self.learned, dtype=np.int64)
        self._known = frozenset(learned)

    def __contains__(self, word: str) -> bool:
        """Whether a word is one of the user's that is no slip."""
        return word in self._known


class LanguageWords:
    """The lexicon of a language, with the share of each word among those outside the model's vocabulary.

    Words inside it keep their share in general text, which matters when a model that has seen little text underrates a
    common word.

    Attributes:
        code: ISO 639 code.
        spoken: whether the vocabulary is of the language.
        outside: (at most OUTSIDE,) int64 ids of the commonest words outside the vocabulary, ascending.
        floor: (k,) float32, least log-probability of each word where a slip is looked for.
        spelling: how strange a text looks as a word.
    """

    def __init__(self, listed: WordList, vocabulary: Vocabulary) -> None:
        self.code = listed.language
        self.words = Indexed(PackedWords(listed.text), in_order=True)
        known = self.words.lexicon.numbers_of(vocabulary.words)
        lacking = 1.0 - float(np.exp(listed.log_shares[known]).sum())
        self.log_shares: Floats = listed.log_shares - np.float32(math.log(max(lacking, LEAST_LACKING)))
        outside = self.log_shares.copy()
        outside[known] = -np.inf
        self.outside = np.sort(best(outside, np.arange(len(outside), dtype=np.int64), OUTSIDE))
        self.log_shares[known] = listed.log_shares[known]
        self.floor: Floats = listed.log_shares + np.float32(math.log(FLOOR_SHARE))
        self.spelling = Spelling(listed.text if len(listed.log_shares) >= LEAST_WORDS else b"")
        self._slips: dict[tuple[str, int], bool] = {}
        self.spoken = speaks(shares_in(vocabulary, listed))

    def share_of(self, word: str) -> float:
        """The share of a word in the text of the language; 0 if it does not list it."""
        number = self.words.lexicon.number_of(word)
        return 0.0 if number is None else math.exp(float(self.floor[number])) / FLOOR_SHARE

    def is_slip(self, own: OwnWord) -> bool:
        """Whether an own word is rather a slip of a common word, or one without its accents, than a word.

        The more often it was typed, the less. A capital inside a sentence speaks for a name.
        """
        key = own.written, own.count
        if key not in self._slips:
            self._slips[key] = self._may_be_slip(own)
        return self._slips[key]

    def _may_be_slip(self, own: OwnWord) -> bool:
        lexicon, folded = self.words.lexicon, fold(own.word)
        if lexicon.number_of(own.word) is not None or len(folded) < correction.SLIP_FROM:
            return False
        worth = correction.LEARNING * math.log2(own.count / LEARNED_FROM)
        least = worth - correction.unlisted_cost(own.written, self.spelling.strangeness(own.word))
        return any(
            float(self.floor[number]) - correction.slip_cost(folded, fold(self.words.known[number]), self.code) > least
            for number in lexicon.at_most_one_slip_away(own.word).tolist()
        )


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

        Where nobody has typed yet, that is the one of the model's language.
        Without ``read`` the lexicons in use stay, and are not read again beside the same vocabulary, which takes
        seconds on a small device; ``vocabulary`` is None without a model.
        """
        if read is None and self._held is not None and self._held[1] == vocabulary:
            return self
        lexicons = Lexicons(read or self._read)
        if vocabulary is not None and self._held is None:
            lexicons._hold_that_of(vocabulary)
        elif vocabulary is not None and self._held is not None:
            lexicons.beside(vocabulary, self._held[0])
        return lexicons

    def _hold_that_of(self, vocabulary: Vocabulary) -> None:
        """Hold the lexicon of the first language that a model speaks, if one says so."""
        for code in LANGUAGES:
            listed = self._read(code)
            if listed is not None and speaks(shares_in(vocabulary, listed)):
                self._held = code, vocabulary, LanguageWords(listed, vocabulary)
                return

    def beside(self, vocabulary: Vocabulary, language: str) -> LanguageWords | None:
        """The words of a language, given its tag; None without a lexicon.

        The lexicon in use stays while nobody says which language it is: reading it again would take the next key long.
        """
        code = code_of(language)
        if not code:
            return None
        if self._held is None or self._held[:2] != (code, vocabulary):
            listed = self._read(code)
            self._held = code, vocabulary, None if listed is None else LanguageWords(listed, vocabulary)
        return self._held[2]

    def spoken_by(self, vocabulary: Vocabulary, language: str) -> bool:
        """Whether a model's vocabulary is of a language, given its tag; empty if nobody said which.

        A language without a lexicon is the model's, unless the lexicon of another one says that the model speaks that.
        """
        code = code_of(language)
        if code not in self._spoken:
            beside = self.beside(vocabulary, language)
            if beside is not None or not code:
                self._spoken[code] = beside is None or beside.spoken
            else:
                others = (other for other in map(self._read, LANGUAGES) if other is not None)
                self._spoken[code] = not any(speaks(shares_in(vocabulary, other)) for other in others)
        return self._spoken[code]


class Part(NamedTuple):
    """A word list with the log-probability of each word.

    Attributes:
        next: ids of the words that may be the next one before a letter is typed, ascending.
        meant: number of the words, the first ones, that a slip may have been meant for; all of them if it is None.
        never: ids of the words that are never offered, ascending.
    """

    words: Indexed
    scores: Floats
    next: Numbers
    never: Numbers
    meant: int | None = None

    def one_slip_away(self, typed: str) -> Numbers:
        """Ids of the words that one slip turns into the typed text, ascending."""
        found = self.words.lexicon.at_most_one_slip_away(typed)
        return found if self.meant is None else found[found < self.meant]

    def allowed(self, among: Numbers) -> Numbers:
        """Those of some words that may be offered."""
        if not len(self.never):
            return among
        # Not np.isin, nor np.unique: the first use imports numpy.ma, which takes longer than ten keys.
        nearest = np.minimum(np.searchsorted(self.never, among), len(self.never) - 1)
        allowed: Numbers = among[self.never[nearest] != among]
        return allowed

    def top(self, among: Numbers, count: int) -> list[ScoredWord]:
        """The best of some words that may be offered."""
        return self.words.top(self.scores, self.allowed(among), count)

    def offered(self) -> Floats:
        """The scores, minus infinity for words that are never offered."""
        if not len(self.never):
            return self.scores
        scores = self.scores.copy()
        scores[self.never] = -np.inf
        return scores


class Sources(NamedTuple):
    """What words are chosen from, after some finished words.

    Attributes:
        model: the words of the model.
        next: what the model says of the next word.
        own: the user's own words.
        language: the words of the typed language; None without a lexicon.
        phrases: words that the person wrote after these very words, with their log-probability.
        never: words that are never offered by themselves.
    """

    model: ModelWords
    next: NextWord
    own: OwnWords
    language: LanguageWords | None
    phrases: Mapping[str, float] = {}
    never: Collection[str] = frozenset()

    def parts(self) -> list[Part]:
        """The word lists with the log-probability of each word."""
        unlisted = self.next.unlisted
        parts = [
            self._part(
                self.model.words, self.next.scores + np.float32(math.log1p(-unlisted)), self.model.everything, None
            ),
            self._part(
                self.own.words, self.own.log_shares + np.float32(math.log(unlisted)), self.own.next, self.own.learned
            ),
        ]
        if self.language is not None:
            rest = np.float32(math.log(unlisted * (1.0 - self.own.share)))
            language = self.language
            parts.append(self._part(language.words, language.log_shares + rest, language.outside, None))
        return parts

    def _part(self, words: Indexed, scores: Floats, following: Numbers, meant: int | None) -> Part:
        for word, score in self.phrases.items():
            number = words.lexicon.number_of(word)
            if number is not None:
                scores[number] = max(float(scores[number]), score)
        return Part(words, scores, following, words.numbers_of(self.never), meant)


def each_once(ranked: Iterable[ScoredWord]) -> list[ScoredWord]:
    """The candidates without repeated words; the first of each word stays."""
    first: dict[str, ScoredWord] = {}
    for one in ranked:
        first.setdefault(one.word, one)
    return list(first.values())
