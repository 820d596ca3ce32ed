"""Builds lexicons from the words of pyspellchecker and the frequencies of wordfreq.

pyspellchecker's words were checked against dictionaries, so common misspellings are not among them; wordfreq counted
words in many kinds of text. A word that only wordfreq has (a name, an abbreviation, a new word) is included if it is
common, unless it is another word without its accents or apostrophe ("dont" and "don't"). So is what is written
otherwise in Britain, however rare: the checked English words are American. Only this module needs the two packages, and
only where models are made; devices get the compiled file.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
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
VERY_COMMON = 3e-4
"""Share of English words that are in any text, and in French no evidence of a word: the is thé."""
TIMES_RARER = 1.7
"""Decimal logarithm of how many times rarer another right spelling may be than the checked one; slips are rarer."""
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
    # wordfreq counts Straße as strasse.
    words = {word: counted.get(word, counted.get(word.replace("ß", "ss"), UNSEEN)) for word in checked}
    respelt = {w for word in checked for w in (word.replace("ß", "ss"), without_umlauts(word, language)) if w != word}
    pieces = {word.partition("'")[0] for word in checked if "'" in word} if language == "fr" else set()  # aujourd'hui
    foreign = set() if language == "en" else {w for w, share in frequencies("en").items() if share > VERY_COMMON}
    alike: defaultdict[str, set[str]] = defaultdict(set)
    commonest: defaultdict[str, float] = defaultdict(lambda: -math.inf)
    for word, p in [*words.items(), *counted.items()]:
        letters = fold(word.replace("ß", "ss"))
        if word in checked:
            alike[letters].add(word)
        if word not in respelt:
            commonest[letters] = max(p, commonest[letters])

    def is_added(word: str, p: float) -> bool:
        letters = fold(word)
        if word in checked or word in short or word in respelt:
            return False
        if p < least and not (language == "en" and _is_british(word, p, words)):
            return False
        if letters not in alike or _has_accents_of_its_own(word, alike[letters]):
            return True
        if language == "ru" and p + TIMES_RARER >= commonest[letters]:
            return True  # й has a key of its own, and ё is left out in print: отношении is not отношений
        # A word that is commoner than all others of its letters lacks none of their accents: debo, email, prêmio.
        own = p == commonest[letters] > max(words[twin] for twin in alike[letters])
        return own and len(word) > 1 and word not in pieces and word not in foreign

    added = {word: p for word, p in counted.items() if is_added(word, p)}
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


def _accents(word: str) -> Set[int]:
    """The places of the letters with an accent.

    >>> sorted(_accents("compañía"))
    [5, 6]
    """
    return {place for place, letter in enumerate(word) if fold(letter) not in ("", letter, "и")}


def _has_accents_of_its_own(word: str, twins: Iterable[str]) -> bool:
    """Whether a word has an accent where a checked word of its letters has none at all, or none of them has one.

    Who misspells an accent leaves it out, or takes another one in its place: perchè is perché, but sé is not se.

    >>> _has_accents_of_its_own("terminó", {"término"}), _has_accents_of_its_own("perchè", {"perché"})
    (True, False)
    """
    accents = _accents(word)
    others = [_accents(twin) for twin in twins]
    return word.isalpha() and bool(accents) and (set() in others or not any(accents <= other for other in others))


_BRITISH = (
    (re.compile("(?<=[^aeou]i|.[ly])s(?=(?:e[drs]?|ers|ing|ations?|able)$)"), "z"),  # organise, analysing
    (re.compile("our(?=s?$|ed$|ing$|able$|ful$)"), "or"),
    (re.compile("(?<=[tbg])re(?=s?$)"), "er"),
    (re.compile("(?<=[^aeiou][aeiou]l)l(?=(?:ed|ing|ers?|ously|ous)$)"), ""),
    (re.compile("[ao]e(?=[^aeiou])"), "e"),  # paediatric
    (re.compile("^scep"), "skep"),
)
"""What is written otherwise in Britain than in America."""
_SHORTEST_BRITISH = 5


def _is_british(word: str, p: float, american: Mapping[str, float]) -> bool:
    """Whether a word is the British spelling of a checked one; ``p`` is the decimal logarithm of its frequency.

    >>> _is_british("organise", -5.8, {"organize": -5.1}), _is_british("lettre", -7.0, {"letter": -4.0})
    (True, False)
    """
    if len(word) < _SHORTEST_BRITISH:
        return False
    spellings = (british.sub(letters, word) for british, letters in _BRITISH)
    return any(other != word and p + TIMES_RARER >= american.get(other, math.inf) for other in spellings)


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
