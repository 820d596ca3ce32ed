r"""A lexicon: the common words of a language with their frequencies, as a compact file beside the vocabulary.

The vocabulary has the words that the model can predict; a lexicon has every word that a user may mean, so that the
keyboard does not correct it. A file is one line of ASCII and a zlib stream::

    nightjar-lexicon 1 LANGUAGE COUNT\n
    zlib(COUNT words in UTF-8, each ended by \n, in order of (fold(word), word);
         COUNT bytes, round(-12 ln p) of each word, at most 255)

where p is the relative frequency of the word. :mod:`nightjar.models.word_lists` chooses the words.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightjar.wire.errors import RemoteProtocolError

STEPS_PER_NAT = 12
MOST_WORDS = 100_000
"""Rarer words occur once in ten million words; they would cost a device memory and gain little."""
MAX_LEXICON_BYTES = 1_500_000
_MAX_WORD_BYTES = 64
_MOST_UMLAUTS = 4
_HEADER = re.compile(rb"nightjar-lexicon 1 ([a-z]{2,3}) ([1-9][0-9]{0,5})\n")


def fold(word: str) -> str:
    """The word without case, accents and apostrophes, which people often leave out; or many words, one a line.

    >>> fold("Don't"), fold("Café"), fold("Ёлка")
    ('dont', 'cafe', 'елка')
    """
    word = word.lower()
    if not word.isascii():
        word = unicodedata.normalize("NFD", word).replace("\u2019", "")
        for mark in [c for c in set(word) if unicodedata.category(c).startswith("M")]:
            word = word.replace(mark, "")
    return word.replace("'", "")


_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}
_SPELT_OUT = re.compile("ae|oe|ue|ss")


def without_umlauts(word: str, language: str) -> str:
    """A German word in lower case as it is typed on keys without umlauts; empty if it has none.

    >>> without_umlauts("können", "de"), without_umlauts("gut", "de")
    ('koennen', '')
    """
    plain = "".join(_UMLAUTS.get(letter, letter) for letter in word) if language == "de" else word
    return plain if plain != word else ""


def with_umlauts(typed: str, language: str) -> list[str]:
    """What a German word in lower case may mean that was typed without umlauts, all of them or some.

    Or with the ß of the spelling before 1996: daß is no slip of das.

    >>> with_umlauts("muesste", "de"), with_umlauts("muesste", "en"), with_umlauts("daß", "de")
    (['müßte', 'müsste', 'mueßte'], [], ['dass'])
    """
    plain = typed.replace("ß", "ss")
    places = list(_SPELT_OUT.finditer(plain)) if language == "de" else []
    if not 1 <= len(places) <= _MOST_UMLAUTS:
        return []
    letters = {two: letter for letter, two in _UMLAUTS.items()}
    made = []
    for chosen in itertools.product((True, False), repeat=len(places)):
        parts, end = [], 0
        for place, umlaut in zip(places, chosen, strict=True):
            parts += [plain[end : place.start()], letters[place[0]] if umlaut else place[0]]
            end = place.end()
        made.append("".join([*parts, plain[end:]]))
    return [word for word in made if word != typed]


_ELIDED = {"fr": ("qu", *"cdjlmnst"), "it": ("dell", "nell", "all", "dall", "sull", "un", "l", "d", "c")}
"""Words that lose their vowel before another one, longest first."""
_ELIDED_BEFORE = frozenset("aeiouyh")


def elisions(typed: str, language: str) -> list[tuple[str, str]]:
    """The two words that a French or Italian word in lower case may be without its apostrophe.

    >>> elisions("lhomme", "fr"), elisions("jai", "fr"), elisions("lhomme", "en")
    ([('l', 'homme')], [('j', 'ai')], [])
    """
    return [
        (elided, typed[len(elided) :])
        for elided in _ELIDED.get(language, ())
        if typed.startswith(elided) and fold(typed[len(elided) :])[:1] in _ELIDED_BEFORE
    ]


@dataclass(frozen=True, slots=True)
class WordList:
    """The content of a lexicon."""

    language: str  # ISO 639 code
    text: bytes  # all words in UTF-8, each ended by a line feed, in order of (fold(word), word)
    log_shares: npt.NDArray[np.float32]  # (k,) float32, natural logarithm of each word's relative frequency


def write_lexicon(language: str, shares: Mapping[str, float]) -> bytes:
    r"""Make a lexicon file of the :data:`MOST_WORDS` most frequent words, from their relative frequencies above 0.

    >>> read_lexicon(write_lexicon("en", {"the": 0.5, "don't": 0.1})).text
    b"don't\nthe\n"
    """
    common = sorted(shares, key=lambda word: (-shares[word], word))[:MOST_WORDS]
    words = sorted(common, key=lambda word: (fold(word), word))
    codes = [min(round(-STEPS_PER_NAT * math.log(shares[word])), 255) for word in words]
    body = "".join(f"{word}\n" for word in words).encode() + bytes(codes)
    return f"nightjar-lexicon 1 {language} {len(words)}\n".encode() + zlib.compress(body, 9)


def read_lexicon(data: bytes) -> WordList:
    """Read an untrusted file.

    Raises:
        RemoteProtocolError: not a lexicon, or too large.
    """
    header = _HEADER.match(data[:64])
    if header is None or len(data) > MAX_LEXICON_BYTES:
        msg = f"expected a lexicon of at most {MAX_LEXICON_BYTES} bytes, got {len(data)} bytes beginning {data[:24]!r}"
        raise RemoteProtocolError(msg, code="lexicon")
    language, count = header[1].decode(), int(header[2])
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(data[header.end() :], min(count, MOST_WORDS) * (_MAX_WORD_BYTES + 1))
    except zlib.error as error:
        msg = f"lexicon {language!r}: {error}"
        raise RemoteProtocolError(msg, code="lexicon") from error
    text, codes = body[:-count], body[-count:]
    if not unpacker.eof or count > MOST_WORDS or text.count(b"\n") != count or not text.endswith(b"\n"):
        msg = f"lexicon {language!r}: expected {count} words (at most {MOST_WORDS}) and as many bytes, got another body"
        raise RemoteProtocolError(msg, code="lexicon")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        msg = f"lexicon {language!r}: expected words in UTF-8: {error}"
        raise RemoteProtocolError(msg, code="lexicon") from error
    return WordList(language, text, (np.frombuffer(codes, np.uint8) / -STEPS_PER_NAT).astype(np.float32))
