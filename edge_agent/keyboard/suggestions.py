"""The suggestion engine: proposes three words for the text being typed.

The text before the caret is cut into the finished words of the current sentence and the prefix of the word being typed.
A predictor scores every word of its vocabulary, given the finished words. The user's own words, which are outside the
vocabulary, are ranked among them with the share that unknown words have. Without a prefix, the best next words are
suggested. With a prefix, the candidates are the words that begin with it or are one slip away; the lexicon of the
language adds the words that the model lacks.

*Autocorrection.* A finished word must not be replaced without reason. So space takes a word only if the device has a
lexicon of the language, the typed text is in no list (lexicon, vocabulary, own words), and a slip is more probable than
an unlisted word (:mod:`edge_agent.keyboard.correction`). Names (a capital inside a sentence), numbers, abbreviations
and words attached to a sign (``@ada``) are left alone. The page shows which word space would take, and backspace undoes
it.

An answer to typed text is never empty: without a model, or if the model fails, common words are suggested. This module
does not store typed text and does not depend on the page.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import structlog

from edge_agent.keyboard import correction
from edge_agent.keyboard.common_words import Unigram, common_words
from edge_agent.keyboard.glide import Keys, Paths
from edge_agent.keyboard.learning import OwnWord
from edge_agent.keyboard.lexicon import Lexicon, Numbers, PackedWords
from edge_agent.ports import Floats, Learner, Predictor
from models.lexicon import WordList, fold
from models.vocabulary import FIRST_WORD, OOV, WORD_PATTERN, Vocabulary, words
from wire.errors import LocalProtocolError, NightjarError

OTHER_LANGUAGE = "The model was trained in another language than this keyboard's: common words of yours instead."
NO_MODEL_YET = "No model yet: common words until this device has fetched one from the coordinator."

OWN_SHARE = 0.06
"""Share of typed words outside a vocabulary of 10,000: 6.2 % of chat (Ubuntu IRC)."""
SPOKEN_SHARE = 0.75
"""A model speaks a language whose lexicon has this share of the model's commonest words. Measured on four English
texts: 0.90 to 0.97 for English, up to 0.61 for other languages."""
GLIDED = 4
"""Words that a glide over the keys is offered as."""
_LOOKED_AT = 500
_MOST_SLIPS = 20
"""Maximum corrections considered per word list; the most probable ones are kept."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The keyboard's suggestions.

    Attributes:
        words: suggested words, best first, at most as many as requested.
        prefix: the end of the text, which the words replace; empty if the words are appended.
        space_takes: whether a space (or a full stop, and so on) after the prefix takes the first word.
        version: version of the model that chose the words; None without a model.
        reason: what is wrong, as text for the user; empty if nothing is.
    """

    words: tuple[str, ...]
    prefix: str
    space_takes: bool
    version: int | None
    reason: str = ""


class Recall(NamedTuple):
    """Number of words in a text, and how many of them were predicted."""

    words: int
    top1: int
    top3: int


@dataclass(frozen=True, slots=True)
class Typed:
    """The text before the caret, as the model sees it.

    Attributes:
        finished: words of the current sentence, in lower case.
        prefix: the typed part of the current word, exactly as typed.
        glued: whether the prefix is attached to a sign, as in ``@ada``, ``<img`` or ``example.org``, and so may not be
            an ordinary word.
    """

    finished: tuple[str, ...]
    prefix: str
    glued: bool = False


# A full stop inside "3.14" or "e.g" does not end a sentence; one before a space, or at the caret, does.
_SENTENCE_END = re.compile(r"[.!?…。؟।](?=\s|$)|\n")
_PREFIX = re.compile(rf"(?:{WORD_PATTERN})\Z")
_STANDS_ALONE = re.compile(r"(?:^|[\s\"'“”‘„«»‹›(\[{¿¡—–-])\Z")  # noqa: RUF001 - quotation marks and dashes are meant


def read_typed(text: str) -> Typed:
    """Cut the text before the caret into finished words and a prefix.

    >>> read_typed("Fine. And how are yo")
    Typed(finished=('and', 'how', 'are'), prefix='yo', glued=False)
    >>> read_typed("Ask @ad")
    Typed(finished=('ask',), prefix='ad', glued=True)
    """
    sentence = _SENTENCE_END.split(text)[-1]
    prefix = _PREFIX.search(sentence)
    start = prefix.start() if prefix else len(sentence)
    return Typed(tuple(words(sentence[:start])), sentence[start:], not _STANDS_ALONE.search(sentence, 0, start))


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


class _Candidate(NamedTuple):
    """A candidate word, and its log-probability in nats."""

    score: float
    word: str


class _Words:
    """The words of a predictor or of a user, with an index over them."""

    def __init__(self, known: Sequence[str], *, in_order: bool = False) -> None:
        self.known = known
        self.lexicon = Lexicon(known, in_order=in_order)
        self._paths: tuple[str, Paths] | None = None

    def top(self, scores: Floats, among: Numbers, count: int) -> list[_Candidate]:
        return [_Candidate(float(scores[n]), self.known[n]) for n in best(scores, among, count).tolist()]

    def glided(self, scores: Floats, glide: Floats, keys: Keys, count: int) -> list[_Candidate]:
        letters = "".join(keys)
        if self._paths is None or self._paths[0] != letters:
            self._paths = letters, Paths(self.known, letters)
        numbers, costs = self._paths[1].costs(glide, np.array([*keys.values()], np.float32))
        meant = scores[numbers] - costs
        ranked = best(meant, np.arange(len(numbers), dtype=np.int64), count).tolist()
        return [_Candidate(float(meant[at]), self.known[numbers[at]]) for at in ranked]


class _Loaded:
    """A predictor with everything that can be precomputed, and its last scores."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.vocabulary = predictor.vocabulary
        self.words = _Words(self.vocabulary.words)
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


class _Own:
    """The user's own words with their shares of the typed words; words that are now in the vocabulary are left out."""

    def __init__(self, own: Iterable[OwnWord], knows: Callable[[str], bool]) -> None:
        self.counted = tuple(one for one in own if not knows(one.word))
        self.written = {one.word: one.written for one in self.counted}
        self.words = _Words([one.word for one in self.counted])
        counts = np.array([one.count for one in self.counted], np.float32)
        self.log_shares: Floats = np.log(OWN_SHARE * counts / max(1.0, float(counts.sum()))).astype(np.float32)
        self.everything = np.arange(len(counts), dtype=np.int64)


class _Language:
    """The lexicon of a language, with the share of each word in typed text.

    Words outside the model's vocabulary divide the share of unknown words among them. Words inside it keep their
    share in general text, which matters when a model that has seen little text underrates a common word.

    Attributes:
        code: ISO 639 code.
        shared: share of the vocabulary's commonest words that the lexicon has, 0 to 1.
    """

    def __init__(self, listed: WordList, vocabulary: Vocabulary) -> None:
        self.code = listed.language
        self.words = _Words(PackedWords(listed.text), in_order=True)
        known = self.words.lexicon.numbers_of(vocabulary.words)
        lacking = 1.0 - float(np.exp(listed.log_shares[known]).sum())
        self.log_shares: Floats = listed.log_shares + np.float32(np.log(OWN_SHARE))
        in_vocabulary = self.log_shares[known]
        self.log_shares -= np.float32(np.log(max(lacking, OWN_SHARE)))
        self.log_shares[known] = in_vocabulary
        commonest = vocabulary.words[:_LOOKED_AT]
        self.shared = len(self.words.lexicon.numbers_of(commonest)) / max(1, len(commonest))


class Suggester:
    """Suggests words from the agent's current predictor. Thread-safe.

    Args:
        predictor: the predictor of the model; None while there is no model.
        own: the user's own words.
        lexicon: reads the lexicon of a language, given its ISO 639 code; returns None if there is none.
    """

    def __init__(
        self,
        predictor: Predictor | None = None,
        own: Iterable[OwnWord] = (),
        lexicon: Callable[[str], WordList | None] = lambda _: None,
    ) -> None:
        self._lock = threading.Lock()
        self._loaded = None if predictor is None else _Loaded(predictor)
        self._learned = tuple(own)
        self._own = _Own(self._learned, self.knows)
        self._common: dict[str, _Loaded] = {}
        self._read_lexicon = lexicon
        self._language: tuple[str, Vocabulary, _Language | None] | None = None
        self._spoken: dict[str, bool] = {}

    @property
    def version(self) -> int | None:
        """Version of the model in use; None without one."""
        loaded = self._loaded
        return None if loaded is None else loaded.predictor.version

    def replace_predictor(
        self, predictor: Predictor | None, lexicon: Callable[[str], WordList | None] | None = None
    ) -> None:
        """Use this predictor from the next suggestion on; a suggestion in progress finishes with the old one.

        Args:
            predictor: the new predictor; None suggests common words.
            lexicon: reads the lexicons of the new model; None keeps those in use.
        """
        loaded = None if predictor is None else _Loaded(predictor)
        read, language = lexicon or self._read_lexicon, self._language
        if loaded is not None and language is not None:  # now, and not at the next key press
            language = language[0], loaded.vocabulary, _read_language(read, language[0], loaded.vocabulary)
        with self._lock:
            self._loaded, self._spoken = loaded, {}
            self._own = _Own(self._learned, self.knows)
            self._read_lexicon, self._language = read, language

    def replace_own_words(self, own: Iterable[OwnWord]) -> None:
        """Use these own words from the next suggestion on."""
        with self._lock:
            self._learned = tuple(own)
            self._own = _Own(self._learned, self.knows)

    @property
    def own_words(self) -> int:
        """Number of own words that can be suggested."""
        return len(self._own.counted)

    def knows(self, word: str) -> bool:
        """Whether a word, in lower case, is in the vocabulary of the model in use."""
        loaded = self._loaded
        return loaded is not None and loaded.vocabulary.id_of(word) != OOV

    def suggest(self, text: str, count: int = 3, language: str = "") -> Suggestions:
        """Suggest words for the text before the caret.

        Args:
            text: the text as typed; only the sentence with the caret matters.
            count: maximum number of words.
            language: tag of the typed language; it matters only while there is no model.

        Raises:
            LocalProtocolError: the count is below 1.
        """
        if count < 1:
            msg = f"expected to suggest at least 1 word, got {count}"
            raise LocalProtocolError(msg)
        typed = read_typed(text)
        loaded, own, spoken, scores, reason = self._state_after(typed.finished, language)
        if not typed.prefix:
            return Suggestions(_next_words(loaded, own, scores, count), "", False, self._version(loaded), reason)
        found, takes = _completions(loaded, own, spoken, scores, typed, count)
        return Suggestions(tuple(found[:count]), typed.prefix, takes, self._version(loaded), reason)

    def glide(self, text: str, points: Sequence[tuple[float, float]], keys: Keys, language: str = "") -> Suggestions:
        """Words that a line drawn over the letter keys may mean; they are appended to the text.

        Args:
            text: the text before the caret.
            points: at least 2 points of the line, (right, down), in key widths.
            keys: the centres of at most 64 letter keys, in the same units.
            language: as in :meth:`suggest`.
        """
        finished = read_typed(f"{text} ").finished
        loaded, own, spoken, scores, reason = self._state_after(finished, language)
        line = np.array(points, np.float32)
        ranked = sorted(
            (one for part, its in _parts(loaded, own, spoken, scores) for one in part.glided(its, line, keys, GLIDED)),
            key=lambda one: -one.score,
        )
        found = tuple(own.written.get(one.word, one.word) for one in _each_once(ranked)[:GLIDED])
        return Suggestions(found, "", False, self._version(loaded), reason)

    def learn(self, text: str) -> None:
        """Let the predictor learn from a message that was sent, if it can."""
        with self._lock:
            if self._loaded is not None:
                self._loaded.learn(text)

    def recall(self, text: str, language: str = "") -> Recall:
        """How many words of a whole text would have been predicted, each before its first letter."""
        counted = top1 = top3 = 0
        with self._lock:
            loaded, own = self._in_use(language), self._own
            for sentence in _SENTENCE_END.split(text):
                sentence_words = words(sentence)
                for place, word in enumerate(sentence_words):
                    scores = loaded.log_probabilities(sentence_words[:place])
                    offered = [one.lower() for one in _next_words(loaded, own, scores, 3)]
                    counted, top3 = counted + 1, top3 + (word in offered)
                    top1 += word in offered[:1]
        return Recall(counted, top1, top3)

    def _state_after(
        self, finished: Sequence[str], language: str
    ) -> tuple[_Loaded, _Own, _Language | None, Floats, str]:
        """What words are chosen from after these, their scores, and what is wrong with the model."""
        with self._lock:
            loaded, own = self._in_use(language), self._own
            spoken = self._language_beside(loaded.vocabulary, language)
            scores = loaded.log_probabilities(finished)
            no_model = NO_MODEL_YET if self._loaded is None else OTHER_LANGUAGE
            return loaded, own, spoken, scores, loaded.failed if loaded is self._loaded else no_model

    def _in_use(self, language: str) -> _Loaded:
        if self._loaded is not None and self._speaks(self._loaded.vocabulary, language):
            return self._loaded
        if language not in self._common:
            self._common = {language: _Loaded(common_words(language))}
        return self._common[language]

    def _speaks(self, vocabulary: Vocabulary, language: str) -> bool:
        """Whether a vocabulary is of a language; nothing speaks against it where there is no lexicon."""
        if language not in self._spoken:
            spoken = self._language_beside(vocabulary, language)
            self._spoken[language] = spoken is None or spoken.shared >= SPOKEN_SHARE
        return self._spoken[language]

    def _language_beside(self, vocabulary: Vocabulary, language: str) -> _Language | None:
        """The lexicon of a language beside a vocabulary; read when either changes."""
        code = language.lower().split("-")[0]
        if self._language is None or self._language[:2] != (code, vocabulary):
            self._language = code, vocabulary, _read_language(self._read_lexicon, code, vocabulary)
        return self._language[2]

    @staticmethod
    def _version(loaded: _Loaded) -> int | None:
        return loaded.predictor.version


def _read_language(read: Callable[[str], WordList | None], code: str, vocabulary: Vocabulary) -> _Language | None:
    listed = read(code) if code else None
    return None if listed is None else _Language(listed, vocabulary)


def _parts(loaded: _Loaded, own: _Own, spoken: _Language | None, scores: Floats) -> list[tuple[_Words, Floats]]:
    """The word lists, and the log-probability of each word."""
    parts = [(loaded.words, scores), (own.words, own.log_shares)]
    return parts if spoken is None else [*parts, (spoken.words, spoken.log_shares)]


def _next_words(loaded: _Loaded, own: _Own, scores: Floats, count: int) -> tuple[str, ...]:
    ranked = loaded.words.top(scores, loaded.everything, count) + own.words.top(own.log_shares, own.everything, count)
    ranked.sort(key=lambda one: -one.score)
    return tuple(own.written.get(one.word, one.word) for one in _each_once(ranked)[:count])


def _completions(
    loaded: _Loaded, own: _Own, spoken: _Language | None, scores: Floats, typed: Typed, count: int
) -> tuple[list[str], bool]:
    """Words that may be meant by a prefix, in the typed case; and whether space takes the first one."""
    prefix = typed.prefix
    lower = unicodedata.normalize("NFC", prefix.lower())
    known = any(_is_known(form, loaded, own, spoken) for form in _forms(lower))

    parts = _parts(loaded, own, spoken, scores)
    # More than needed: what does not begin exactly as typed loses some of its score yet.
    going_on = [
        one if one.word.startswith(lower) else one._replace(score=one.score - correction.SPELT_ALIKE)
        for part, its_scores in parts
        for one in part.top(its_scores, part.lexicon.beginning_with(prefix), 2 * count)
    ]
    slips: list[_Candidate] = []
    if not known and not _has_figure(prefix):
        slips = _slips(parts, prefix, "" if spoken is None else spoken.code)
    takes = bool(slips) and spoken is not None and _may_change(typed)
    takes = takes and slips[0].score > -correction.unlisted_cost(prefix)
    meant = slips[:1] if takes else []
    ranked = _each_once(meant + sorted(going_on + slips, key=lambda one: -one.score))
    words = [one.word for one in ranked][:count]
    if takes:
        words.insert(1, lower)  # one tap keeps what was typed
    elif lower not in words:
        words.append(lower)
    if len(words) < count:
        words += _alike(loaded, scores, lower, count, words)
    return [_as_typed(word, prefix, own) for word in words], takes


def _forms(lower: str) -> tuple[str, ...]:
    """Forms of a word, without quotation marks and genitive; the word is known if one of its forms is."""
    bare = lower.strip("'")
    return lower, bare, bare.removesuffix("'s")


def _is_known(word: str, loaded: _Loaded, own: _Own, spoken: _Language | None) -> bool:
    if word in own.written or loaded.vocabulary.id_of(word) != OOV:
        return True
    return spoken is not None and spoken.words.lexicon.number_of(word) is not None


def _slips(parts: Sequence[tuple[_Words, Floats]], prefix: str, language: str) -> list[_Candidate]:
    """The words that one slip turns into a prefix, the most probable first."""
    folded = fold(prefix)
    slips = [
        one._replace(score=one.score - correction.slip_cost(folded, fold(one.word), language))
        for part, scores in parts
        for one in part.top(scores, part.lexicon.at_most_one_slip_away(prefix), _MOST_SLIPS)
        if len(prefix) >= correction.SLIP_FROM or fold(one.word) == folded
    ]
    return sorted(slips, key=lambda one: -one.score)


def _may_change(typed: Typed) -> bool:
    """Whether the typed text may be corrected at all: names, numbers and abbreviations are left alone."""
    prefix = typed.prefix
    abbreviation, name = prefix[1:] != prefix[1:].lower(), prefix[0].isupper() and bool(typed.finished)
    return len(prefix) > 1 and not (typed.glued or abbreviation or name or _has_figure(prefix))


def _has_figure(text: str) -> bool:
    return any(character.isnumeric() for character in text)


def _alike(loaded: _Loaded, scores: Floats, typed: str, count: int, found: Sequence[str]) -> list[str]:
    """Words with a similar beginning, for a slip near the end: more than half of the prefix must match."""
    more: list[str] = []
    for kept in range(len(typed) - 1, len(typed) // 2, -1):
        if len(found) + len(more) >= count:
            break
        near = loaded.words.top(scores, loaded.words.lexicon.beginning_with(typed[:kept]), count + len(found))
        more += [one.word for one in near if one.word not in found and one.word not in more]
    return more


def _each_once(ranked: Iterable[_Candidate]) -> list[_Candidate]:
    first: dict[str, _Candidate] = {}
    for one in ranked:
        first.setdefault(one.word, one)
    return list(first.values())


def _as_typed(word: str, prefix: str, own: _Own) -> str:
    if word == unicodedata.normalize("NFC", prefix.lower()):
        return prefix
    return in_case_of(own.written.get(word, word), prefix)
