"""Where lexicons come from: words that pyspellchecker's lists have, and how common wordfreq says they are.

The first were checked against dictionaries, so that common misspellings are not among them; the second were counted in
many kinds of text. Words that only the second has (names, abbreviations, new words) are taken if they are common, and
unless a checked word has the same letters ("dont" beside "don't"). Only this module needs the two packages, and only
where models are made; devices get the compiled file.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from models.lexicon import fold, write_lexicon
from wire.errors import ConfigError

LANGUAGES = ("de", "en", "es", "fr", "it", "pt", "ru")
"""Those that the keyboard has keys for."""

COMMON = -5.5
"""Decimal logarithm of the share from which on an unchecked word is taken: rarer ones are mostly misspelt."""
UNSEEN = -8.0
"""Decimal logarithm of the share of a checked word that was not counted; wordfreq's lists end there."""
ENOUGH = 50_000
"""Fewer checked words are no whole language (Russian: 20,000): then the unchecked ones are taken, common or not."""


def word_shares(language: str) -> Mapping[str, float]:
    """Every word that may stand in the lexicon of a language, and its share of what is said.

    Raises:
        ConfigError: there is no list of that language, or a package is not installed.
    """
    if language not in LANGUAGES:
        msg = f"expected languages among {', '.join(LANGUAGES)}, got {language!r}"
        raise ConfigError(msg)
    checked = set(json.loads(_unpacked("pyspellchecker", "spellchecker", f"resources/{language}.json.gz")))
    # Format cB: after a header, the words of each hundredth of a power of ten, the commonest first.
    _, *bins = msgspec.msgpack.decode(_unpacked("wordfreq", "wordfreq", f"data/large_{language}.msgpack.gz"))
    counted = {word: -number / 100 for number, bin_ in enumerate(bins) for word in bin_}
    least = COMMON if len(checked) >= ENOUGH else UNSEEN
    spelt = {fold(word) for word in checked}
    words = {word: counted.get(word, UNSEEN) for word in checked}
    words |= {word: p for word, p in counted.items() if p >= least and word not in checked and fold(word) not in spelt}
    cyrillic = language == "ru"
    return {
        w: math.pow(10, p)
        for w, p in words.items()
        if _is_a_word(w, words) and ("\u0400" <= w[0] <= "\u04ff") == cyrillic
    }


def compiled(language: str) -> bytes:
    """The lexicon of a language, as a file.

    Raises:
        ConfigError: as :func:`word_shares`.
    """
    return write_lexicon(language, word_shares(language))


def _is_a_word(word: str, words: Mapping[str, float]) -> bool:
    """Letters and apostrophes; a possessive is its noun and two letters more, which nobody needs to look up."""
    possessive = word.endswith("'s") and words.get(word[:-2], -math.inf) > words[word]
    return word.replace("'", "").isalpha() and not possessive


def _unpacked(distribution: str, package: str, file: str) -> bytes:
    place = importlib.util.find_spec(package)  # not imported: wordfreq brings tokenizers of all languages
    try:
        return gzip.decompress((Path(place.submodule_search_locations[0]) / file).read_bytes())  # type: ignore[union-attr,index]
    except (AttributeError, OSError) as error:
        msg = f"lexicons are made from the word lists of {distribution}, which is not installed: 'make setup' does it"
        raise ConfigError(msg) from error
