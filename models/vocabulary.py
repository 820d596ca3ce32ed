"""Words and their ids.

A word is a run of letters and digits of any script, with their combining marks, and apostrophes, in lower case and in
Unicode's composed form (NFC); everything else separates words and is not modelled. The first four ids are specials that
nobody types, so they are not in the file: the vocabulary artifact is UTF-8, one word a line, most frequent first, and
line k (from 0) is the word with id ``FIRST_WORD + k``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nightjar.wire.errors import CorpusError, LocalProtocolError, RemoteProtocolError

PAD = 0
"""Padding at the end of a row; never a target."""
BOS = 1
"""Beginning of a message; resets the state of the LSTM."""
EOS = 2
"""End of a message; a target in training, never suggested and never counted."""
OOV = 3
"""Any word that is not in the vocabulary; never suggested and never counted."""
FIRST_WORD = 4
"""The smallest id of a real word: ids below it are the specials."""

SPECIALS = ("<pad>", "<bos>", "<eos>", "<oov>")

MAX_WORDS = 1 << 20
"""A vocabulary file with more lines is refused: no keyboard needs it, and a hostile one could exhaust memory."""
MAX_WORD_CHARACTERS = 64
"""Longer words, such as keys and hashes, are never learned."""

# ``\w`` matches letters and digits of every script, but not the combining marks that many scripts use for vowels.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x3000)) if unicodedata.category(c).startswith("M"))
WORD_PATTERN = rf"(?:[^\W_]|')(?:[^\W_]|['{_MARKS}])*"
"""A word in text that is not normalized yet, for example while the user is typing."""
_WORD = re.compile(WORD_PATTERN)
# Many keyboards and editors write this character inside words; at the end of a word it is a quotation mark.
_TYPOGRAPHIC_APOSTROPHE = re.compile(r"(?<=[^\W_])\u2019(?=[^\W_])")


def words(text: str) -> list[str]:
    """Split text into words.

    >>> words("Don't PANIC: 42!"), words("Schöne Grüße, Ёлка")
    (["don't", 'panic', '42'], ['schöne', 'grüße', 'ёлка'])
    """
    if not text.isascii():
        text = _TYPOGRAPHIC_APOSTROPHE.sub("'", unicodedata.normalize("NFC", text))
    return _WORD.findall(text.lower())


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """An ordered set of words, each with an id from ``FIRST_WORD`` upwards.

    >>> v = Vocabulary(("the", "cat"))
    >>> v.size, v.encode(["the", "dog"]), v.word(5)
    (6, [4, 3], 'cat')

    Raises:
        RemoteProtocolError: no words, too many, a repeated one, or one that :func:`words` would not produce.
    """

    words: tuple[str, ...]
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the words and index them."""
        if not 1 <= len(self.words) <= MAX_WORDS:
            msg = f"a vocabulary has 1 to {MAX_WORDS} words, got {len(self.words)}"
            raise RemoteProtocolError(msg, code="vocabulary")
        for line, word in enumerate(self.words, 1):
            if len(word) > MAX_WORD_CHARACTERS or words(word) != [word]:
                msg = (
                    f"vocabulary line {line}: expected a word of 1 to {MAX_WORD_CHARACTERS} letters (in lower case), "
                    f"digits or ', got {word[:80]!r}"
                )
                raise RemoteProtocolError(msg, code="vocabulary")
        ids = {word: number for number, word in enumerate(self.words, FIRST_WORD)}
        if len(ids) != len(self.words):
            msg = f"a vocabulary has each word once, got {len(self.words) - len(ids)} repeated"
            raise RemoteProtocolError(msg, code="vocabulary")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, texts: Iterable[str], size: int) -> Vocabulary:
        """The words of a vocabulary of at most ``size`` ids, specials included: the most frequent ones of the texts.

        Ties are in alphabetical order, so every machine gives the same result.

        >>> Vocabulary.build(["b a", "a c", "c"], size=6).words
        ('a', 'c')

        Raises:
            CorpusError: there is no word in the texts.
        """
        counts = Counter(word for text in texts for word in words(text) if len(word) <= MAX_WORD_CHARACTERS)
        if not counts:
            msg = "expected text with words (letters or digits) for a vocabulary, got none: use another corpus"
            raise CorpusError(msg)
        commonest = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(tuple(commonest[: size - FIRST_WORD]))

    @property
    def size(self) -> int:
        """V: number of ids, specials included."""
        return FIRST_WORD + len(self.words)

    def id_of(self, word: str) -> int:
        """The id of a word, or ``OOV``."""
        return self._ids.get(word, OOV)

    def encode(self, message: Sequence[str]) -> list[int]:
        """The ids of a message's words, without specials other than ``OOV``."""
        return [self._ids.get(word, OOV) for word in message]

    def word(self, number: int) -> str:
        """The word of an id; for a special ``<pad>``, ``<bos>``, ``<eos>`` or ``<oov>``.

        Raises:
            LocalProtocolError: the id is out of range.
        """
        if not 0 <= number < self.size:
            msg = f"word ids go from 0 to {self.size - 1}, got {number}"
            raise LocalProtocolError(msg)
        return SPECIALS[number] if number < FIRST_WORD else self.words[number - FIRST_WORD]

    def to_bytes(self) -> bytes:
        r"""The vocabulary artifact.

        >>> Vocabulary(("the", "cat")).to_bytes()
        b'the\ncat\n'
        """
        return "".join(word + "\n" for word in self.words).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Vocabulary:
        """Inverse of :meth:`to_bytes`.

        Raises:
            RemoteProtocolError: not UTF-8, a truncated last line, or invalid words.
        """
        if len(data) > MAX_WORDS * (MAX_WORD_CHARACTERS + 1):
            msg = f"a vocabulary file has at most {MAX_WORDS * (MAX_WORD_CHARACTERS + 1)} bytes, got {len(data)}"
            raise RemoteProtocolError(msg, code="vocabulary")
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            msg = f"vocabulary: expected UTF-8, got an invalid byte at offset {error.start}"
            raise RemoteProtocolError(msg, code="vocabulary") from error
        if lines.pop() != "":
            msg = "vocabulary: expected a newline at the end, got a truncated last line"
            raise RemoteProtocolError(msg, code="vocabulary")
        return cls(tuple(lines))
