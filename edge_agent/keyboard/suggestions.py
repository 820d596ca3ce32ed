"""The suggestion engine: proposes three words for the text being typed.

The text before the caret is cut into the finished words of the current sentence and the prefix of the word being typed
(:mod:`nightjar.edge_agent.keyboard.typed`). A predictor scores every word of its vocabulary, given the finished words.
The user's own words and the words of the language's lexicon that the vocabulary lacks are ranked among them with the
share that such words have (:mod:`nightjar.edge_agent.keyboard.scored_words`). Without a prefix, the best next words are
suggested. With a prefix, the candidates are the words that begin with it or are one slip away
(:mod:`nightjar.edge_agent.keyboard.completions`).

An answer to typed text is never empty: without a model, or if the model fails, common words are suggested. This module
does not store typed text and does not depend on the page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from nightjar.edge_agent.keyboard.common_words import code_of, common_words
from nightjar.edge_agent.keyboard.completions import completions, glided, next_words
from nightjar.edge_agent.keyboard.glide import Keys
from nightjar.edge_agent.keyboard.learning import OwnWord
from nightjar.edge_agent.keyboard.phrases import Phrases
from nightjar.edge_agent.keyboard.recall import Foreseen
from nightjar.edge_agent.keyboard.refused import Offers
from nightjar.edge_agent.keyboard.scored_words import LanguageWords, Lexicons, ModelWords, OwnWords, Sources
from nightjar.edge_agent.keyboard.slurs import slurs_of
from nightjar.edge_agent.keyboard.typed import read_typed, sentences
from nightjar.edge_agent.ports import Predictor
from nightjar.models.lexicon import WordList
from nightjar.models.vocabulary import OOV, words

OTHER_LANGUAGE = "The model was trained in another language than this keyboard's: common words of yours instead."
NO_MODEL_YET = "No model yet: common words until this device has fetched one from the coordinator."

MOST_WAIT_S = 0.2
"""Most time that a word of a sent message waits for suggestions: somebody who asks without a pause delays it only."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The keyboard's suggestions.

    Attributes:
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


class Suggester:
    """Suggests words from the agent's current predictor. Thread-safe.

    ``lexicon`` reads the lexicon of a language, given its ISO 639 code; it returns None if there is none.
    """

    def __init__(
        self,
        predictor: Predictor | None = None,
        own: Iterable[OwnWord] = (),
        lexicon: Callable[[str], WordList | None] = lambda _: None,
    ) -> None:
        self._lock = threading.Lock()
        self._answered = threading.Condition()
        self._asking = 0
        self._loaded = None if predictor is None else ModelWords(predictor)
        self._learned = tuple(own)
        self._own = OwnWords(self._learned, self.knows)
        self._own_beside: LanguageWords | None = None
        self._phrases = Phrases()
        self._offers = Offers()
        self._unwanted: tuple[frozenset[str], frozenset[str], frozenset[str]] = (frozenset(), frozenset(), frozenset())
        self._common: dict[str, ModelWords] = {}
        self._lexicons = Lexicons(lexicon)

    @property
    def version(self) -> int | None:
        """Version of the model in use; None without one."""
        loaded = self._loaded
        return None if loaded is None else loaded.predictor.version

    def replace_predictor(
        self,
        predictor: Predictor | None,
        lexicon: Callable[[str], WordList | None] | None = None,
        texts: Iterable[str] | None = None,
    ) -> None:
        """Use this predictor from the next suggestion on; a suggestion in progress finishes with the old one.

        Without a predictor common words are suggested; without ``lexicon`` the lexicons in use stay. ``texts`` are the
        person's messages, oldest first, whose phrases replace those that were learned; without them those stay.
        """
        phrases = None if texts is None else Phrases(texts)
        loaded = None if predictor is None else ModelWords(predictor)
        lexicons = self._lexicons.renewed(lexicon, None if loaded is None else loaded.vocabulary)
        with self._lock:
            self._loaded, self._lexicons = loaded, lexicons
            self._phrases = phrases or self._phrases
            self._renew_own_words()

    def replace_own_words(self, own: Iterable[OwnWord]) -> None:
        """Use these own words from the next suggestion on."""
        with self._lock:
            self._learned = tuple(own)
            self._renew_own_words()

    def _renew_own_words(self) -> None:
        beside = self._own_beside
        self._own = OwnWords(self._learned, self.knows, *(() if beside is None else (beside.is_slip,)))

    @property
    def own_words(self) -> int:
        """Number of own words that can be suggested as the next word."""
        return self._own.learned

    def knows(self, word: str) -> bool:
        """Whether a word, in lower case, is in the vocabulary of the model in use."""
        loaded = self._loaded
        return loaded is not None and loaded.vocabulary.id_of(word) != OOV

    def needs_counting(self, word: str) -> bool:
        """Whether typing a word, in lower case, changes what is known: it is an own word, or was forgotten."""
        return not self.knows(word) or word in self._own.forgotten

    def lists(self, word: str) -> bool:
        """Whether a word, in lower case, would be offered even if the person had never typed it."""
        beside = self._own_beside
        return self.knows(word) or (beside is not None and beside.words.lexicon.number_of(word) is not None)

    def suggest(self, text: str, count: int = 3, language: str = "", *, slurs: bool = False) -> Suggestions:
        """Suggest words for the text before the caret.

        Only the sentence with the caret matters. ``language`` is a tag such as ``de-AT``, empty if it is not known.
        ``slurs`` says whether slurs are offered, too (:mod:`nightjar.edge_agent.keyboard.slurs`).
        """
        typed = read_typed(text)
        with self._asked():
            sources, reason = self._sources_after(typed.finished, language, slurs=slurs)
            version = sources.model.predictor.version
            if typed.prefix:
                with self._lock:
                    passed_over = self._offers.passed_over(typed.finished, typed.prefix)
                found, takes = completions(sources, typed, count, passed_over)
            else:
                found, takes = list(next_words(sources, count)), False
            offered = tuple(found[:count])
            with self._lock:
                self._offers.note(typed.finished, typed.prefix, offered)
            return Suggestions(offered, typed.prefix, takes, version, reason)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Somebody waits for words."""
        with self._answered:
            self._asking += 1
        try:
            yield
        finally:
            with self._answered:
                self._asking -= 1
                self._answered.notify_all()

    def glide(
        self,
        text: str,
        points: Sequence[tuple[float, float]],
        keys: Keys,
        language: str = "",
        *,
        slurs: bool = False,
    ) -> Suggestions:
        """Words that a line drawn over the letter keys may mean; they are appended to the text.

        ``points`` are at least 2 of the line, (right, down), in key widths; ``keys`` the centres of at most 64 letter
        keys.
        """
        sources, reason = self._sources_after(read_typed(f"{text} ").finished, language, slurs=slurs)
        return Suggestions(glided(sources, points, keys), "", False, sources.model.predictor.version, reason)

    def learn(self, text: str) -> None:
        """Let the predictor learn from a message that was sent, if it can."""
        with self._lock:
            self._phrases.learn(text)
            if self._loaded is not None:
                self._loaded.learn(text)

    def forget_phrases(self) -> None:
        """Forget what the person wrote after which words."""
        with self._lock:
            self._phrases = Phrases()

    def recall(self, text: str, language: str = "") -> Foreseen:
        """How many words of a whole text would have been predicted, each before its first letter.

        Whoever waits for words gets them first: a suggestion waits for one word of this at most.
        """
        counted = top1 = top3 = 0
        for sentence in sentences(text):
            sentence_words = words(sentence)
            for place, word in enumerate(sentence_words):
                with self._answered:
                    self._answered.wait_for(lambda: not self._asking, MOST_WAIT_S)
                with self._lock:
                    sources = self._sources(sentence_words[:place], language, slurs=False)
                offered = [one.lower() for one in next_words(sources, 3)]
                counted, top3 = counted + 1, top3 + (word in offered)
                top1 += word in offered[:1]
        return Foreseen(counted, top1, top3)

    def _sources_after(self, finished: Sequence[str], language: str, *, slurs: bool) -> tuple[Sources, str]:
        """What words are chosen from after these, and what is wrong with the model."""
        with self._lock:
            sources = self._sources(finished, language, slurs=slurs)
            no_model = NO_MODEL_YET if self._loaded is None else OTHER_LANGUAGE
            return sources, sources.model.failed if sources.model is self._loaded else no_model

    def _sources(self, finished: Sequence[str], language: str, *, slurs: bool) -> Sources:
        loaded = self._in_use(language)
        spoken = self._lexicons.beside(loaded.vocabulary, language)
        if spoken is not self._own_beside:
            self._own_beside = spoken
            self._renew_own_words()
        never = self._own.forgotten if slurs else self._never(code_of(language))
        return Sources(loaded, loaded.after(finished), self._own, spoken, self._phrases.after(finished), never)

    def _never(self, language: str) -> frozenset[str]:
        """The words that are not offered; the same object until they change."""
        parts = self._own.forgotten, slurs_of(language)
        if self._unwanted[:2] != parts:
            self._unwanted = *parts, frozenset().union(*parts)
        return self._unwanted[2]

    def _in_use(self, language: str) -> ModelWords:
        if self._loaded is not None and self._lexicons.spoken_by(self._loaded.vocabulary, language):
            return self._loaded
        if language not in self._common:
            self._common = {language: ModelWords(common_words(language))}
        return self._common[language]
