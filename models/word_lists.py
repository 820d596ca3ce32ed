"""Builds lexicons from the words of pyspellchecker and the frequencies of wordfreq.

pyspellchecker's words were checked against dictionaries, so common misspellings are not among them; wordfreq counted
words in many kinds of text. A word that only wordfreq has (a name, an abbreviation, a new word) is included if it is
common, unless a checked word has the same letters ("dont" and "don't"). Only this module needs the two packages, and
only where models are made; devices get the compiled file.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from collections.abc import Mapping, Set
from pathlib import Path

import msgspec

from nightjar.models.lexicon import elisions, fold, without_umlauts, write_lexicon
from nightjar.wire.errors import ConfigError

LANGUAGES = ("de", "en", "es", "fr", "it", "pt", "ru")
"""Languages for which the keyboard has a layout."""

COMMON = -5.5
"""Decimal logarithm of the least frequency of an unchecked word: rarer ones are mostly misspelt."""
UNSEEN = -8.0
"""Decimal logarithm of the frequency of a checked word that wordfreq lacks; wordfreq's lists end there."""
ENOUGH = 50_000
"""A shorter list of checked words is incomplete (Russian has 20,000): then all unchecked words are included."""

CONTRACTED = frozenset(
    {"it", "that", "what", "who", "where", "when", "why", "how", "here", "there", "he", "she", "let", "one"}
    | {"today", "tonight", "tomorrow", "yesterday"}
    | {f"{some}{what}" for some in ("every", "some", "any", "no") for what in ("one", "body", "thing")}
)
"""English words with which 's is short for *is*, *has* or *us*; after any other word it is mostly a possessive."""


def word_shares(language: str) -> Mapping[str, float]:
    """Every word for the lexicon of one of the :data:`LANGUAGES`, with its relative frequency.

    Raises:
        ConfigError: a package is not installed.
    """
    checked = dictionary(language)
    # wordfreq gives frequencies in bins of a hundredth of a power of ten.
    counted = {word: round(math.log10(share), 2) for word, share in frequencies(language).items()}
    least = COMMON if len(checked) >= ENOUGH else UNSEEN
    short = {f"{word}s" for word in CONTRACTED - {"it", "let", "one"}} if language == "en" else set()
    checked -= short  # some are in the dictionary: whats, heres
    spelt = (
        short
        | {fold(spelling) for word in checked for spelling in (word, word.replace("ß", "ss"))}
        | {plain for word in checked if (plain := without_umlauts(word, language))}
    )
    # wordfreq counts Straße as strasse.
    words = {word: counted.get(word, counted.get(word.replace("ß", "ss"), UNSEEN)) for word in checked}
    unaccented = {word for word in checked if fold(word) == word}
    added = {
        word: p
        for word, p in counted.items()
        if p >= least and word not in checked and (fold(word) not in spelt or _has_accents_of_its_own(word, unaccented))
    }
    # What people write without the apostrophe of an elision is rarer than the word after it; mail is no m'ail.
    words |= {
        word: p
        for word, p in added.items()
        if not any(words.get(rest, -math.inf) > p for _, rest in elisions(word, language))
    }
    cyrillic = language == "ru"
    return {
        w: math.pow(10, p)
        for w, p in words.items()
        if _is_a_word(w, language, words) and ("\u0400" <= w[0] <= "\u04ff") == cyrillic
    }


def dictionary(language: str) -> Set[str]:
    """The words of pyspellchecker's dictionary of a language.

    Raises:
        ConfigError: the package is not installed.
    """
    return set(json.loads(_unpacked("pyspellchecker", "spellchecker", f"resources/{language}.json.gz")))


def frequencies(language: str) -> dict[str, float]:
    """The relative frequencies of wordfreq's words, most frequent first.

    Raises:
        ConfigError: the package is not installed.
    """
    # Format cB: a header, then the words in bins of a hundredth of a power of ten, most frequent first.
    _, *bins = msgspec.msgpack.decode(_unpacked("wordfreq", "wordfreq", f"data/large_{language}.msgpack.gz"))
    return {word: math.pow(10, -number / 100) for number, bin_ in enumerate(bins) for word in bin_}


def compiled(language: str) -> bytes:
    """The lexicon file of a language.

    Raises:
        ConfigError: see :func:`word_shares`.
    """
    return write_lexicon(language, word_shares(language))


def _has_accents_of_its_own(word: str, plain: Set[str]) -> bool:
    """Whether a checked word has the same letters, but no accent at all: sé and se are two words, perchè is perché."""
    return word.isalpha() and fold(word) != word and fold(word) in plain


def _is_a_word(word: str, language: str, words: Mapping[str, float]) -> bool:
    """Whether a word has only letters and apostrophes, and is not a possessive."""
    if not word.replace("'", "").isalpha():
        return False
    if not word.endswith("'s"):
        return True
    if language == "en":
        return word[:-2] in CONTRACTED
    return words.get(word[:-2], -math.inf) <= words[word]


def _unpacked(distribution: str, package: str, file: str) -> bytes:
    place = importlib.util.find_spec(package)  # not imported: wordfreq imports the tokenizers of all languages
    try:
        return gzip.decompress((Path(place.submodule_search_locations[0]) / file).read_bytes())  # type: ignore[union-attr,index]
    except (AttributeError, OSError) as error:
        msg = f"lexicons are made from the word lists of {distribution}, which is not installed: run 'make setup'"
        raise ConfigError(msg) from error
