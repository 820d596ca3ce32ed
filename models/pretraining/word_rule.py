"""Which words a public model may know: those of many people or of the language, and nobody's name.

A word is allowed if at least :data:`LEAST_PEOPLE` people typed it, or if it is among the :data:`COMMONEST` of wordfreq;
but never if it names somebody and is not in pyspellchecker's dictionary. A word names somebody if it is a nickname, or
if at least half of its occurrences are inside of a nickname or where a message begins with whom it is addressed to
("ada: try again", "ada, try again"). So a word that is a part of somebody's nickname stays if people type it otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from nightjar.models.pretraining.sharing import people_by_word
from nightjar.models.pretraining.written import CorpusMessages
from nightjar.models.vocabulary import MAX_WORD_CHARACTERS, words
from nightjar.models.word_lists import dictionary, frequencies

LEAST_PEOPLE = 20
COMMONEST = 20_000
LANGUAGE_WEIGHT = 0.1
"""Weight of a word's frequency in the language, beside its frequency in the text: people everywhere type more kinds of
words than this text has. It costs no coverage of people outside, and adds two points of the language's."""
_AROUND = ".,:;!?()[]<>\"'"


@dataclass(frozen=True, slots=True)
class Language:
    """What is known of a language: the words of its dictionary, and frequencies of common words."""

    dictionary: Collection[str]
    frequencies: Mapping[str, float]  # relative frequency of each word

    @classmethod
    def load(cls, language: str) -> Language:
        """Of the installed word lists.

        Raises:
            ConfigError: a package is not installed.
        """
        return cls(dictionary(language), frequencies(language))


def ranked_words(text: CorpusMessages, language: Language, least_people: int = LEAST_PEOPLE) -> list[str]:
    """All allowed words, most frequent first; a vocabulary is the first of them."""
    messages = text.messages
    people = people_by_word(messages, text.people.tolist())
    counts = Counter(chain.from_iterable(messages))
    total = max(counts.total(), 1)
    common = sorted(language.frequencies, key=lambda word: (-language.frequencies[word], word))[:COMMONEST]
    allowed = {word for word, number in people.items() if number >= least_people} | set(common)
    named = names([*text.users, *text.others], text.texts, counts, language.dictionary)
    scores = {
        word: counts[word] / total + LANGUAGE_WEIGHT * language.frequencies.get(word, 0.0)
        for word in allowed - named
        if words(word) == [word] and len(word) <= MAX_WORD_CHARACTERS
    }
    return sorted(scores, key=lambda word: (-scores[word], word))


def names(
    users: Iterable[str], texts: Iterable[str], counts: Mapping[str, int], dictionary: Collection[str]
) -> set[str]:
    """The words that name somebody and are not in the dictionary; ``counts`` has how often each word was typed.

    >>> texts = ["xara: see zed_2", "zed is a key, kde too"]
    >>> sorted(names(["bob7", "zed_2"], texts, {"xara": 1, "zed": 2, "2": 3}, {"key"}))
    ['bob7', 'xara', 'zed']
    """
    nicknames = {user.lower().strip(_AROUND) for user in users}
    naming: Counter[str] = Counter()
    for text in texts:
        pieces = text.lower().split()
        for number, piece in enumerate(pieces):
            bare = piece.strip(_AROUND)
            if bare in nicknames or (number == 0 and piece.endswith((":", ","))):
                naming.update(words(bare))
    whole = {spoken[0] for spoken in map(words, nicknames) if len(spoken) == 1}
    often = {word for word, number in naming.items() if 2 * number >= counts.get(word, 0)}
    return {word for word in whole | often if word not in dictionary}
