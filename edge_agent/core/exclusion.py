"""Filter for typed messages: decides what may be stored.

It takes two measures. A message that contains a secret is not stored at all: an e-mail address, a card number, an
account number (IBAN), a link that carries a token, a long number (telephone, code, PIN), something that looks like a
password or key, a secret made of words (:mod:`nightjar.edge_agent.core.spelt_secrets`), a word that the user has
forbidden. From other messages, links and everything that contains a digit are cut out: the model does not learn from
them, so there is no reason to store them.

The filter is incomplete: no pattern recognises every secret. What it catches never reaches the disk.
"""

from __future__ import annotations

import enum
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from nightjar.edge_agent.core import named_secrets, spelt_secrets


class Secret(enum.Enum):
    """Why a message is not stored."""

    EMAIL = "e-mail address"
    CARD = "card number"
    IBAN = "account number"
    TOKEN_LINK = "link with a token"  # noqa: S105 - a name
    LONG_NUMBER = "long number"
    PASSWORD = "password or key"  # noqa: S105 - a name
    NAMED = "password, PIN or token after its name"
    SEED_PHRASE = "seed phrase"
    FORBIDDEN = "forbidden word"


@dataclass(frozen=True, slots=True)
class Kept:
    """What may be stored of a message, empty if nothing; ``secret`` is why the whole message was dropped."""

    text: str
    secret: Secret | None = None


CUT = "…"
"""Replaces each part that was cut out."""
LONG_NUMBER_DIGITS = 5
"""Digits from which a number counts as a telephone number, code or PIN; years and prices have four."""
SHORTEST_PASSWORD = 8
LONGEST_WORD = 64
"""A longer run of characters counts as a key or a hash."""

_EMAIL = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@.]{2,}|[^\s@]+\s*[\[({]\s*(?:at|ät)\s*[\])}]\s*[^\s@]+", re.IGNORECASE)
_LINK = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.)\S+", re.IGNORECASE)
_TOKEN_IN_LINK = re.compile(r"[?#;=]|://[^/\s]*@|/[^/\s]*[\w-]{20,}")
# Digits with at most two separators between them, as people write long numbers.
_NUMBER = re.compile(r"\d(?:[\s./()\-\u2010-\u2015\u00a0]{0,2}\d)+")
_IBAN = re.compile(r"\b[A-Za-z]{2}\d{2}(?:\s?[A-Za-z0-9]{1,4}){2,9}\b")
_WITH_FIGURE = re.compile(r"\S*\d\S*")
_RUN = re.compile(r"\S+")
# /dev/sda1, ~/src/a.c: names in lower case, with a figure or two at their end.
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[a-z._+-]{1,24}\d{0,2}){1,8}/?")


def storable(text: str, forbidden: Sequence[str] = (), *, anyway: bool = False) -> Kept:
    """The part of a message that may be stored; the case of ``forbidden`` words does not matter.

    ``anyway`` says that the person looked at the message and wants it kept: only the forbidden words count then, and
    addresses are cut out like links.

    >>> storable("see you at 8, room 12b!")
    Kept(text='see you at … room …', secret=None)
    >>> storable("mine is ada@example.org").secret
    <Secret.EMAIL: 'e-mail address'>
    """
    # Full-width digits, ligatures and the like are as readable as plain characters, so the text is normalised. A lone
    # surrogate, which a browser can send, cannot be encoded in UTF-8.
    text = text.encode(errors="replace").decode()
    plain = unicodedata.normalize("NFKC", text)
    secret = _secret_in(plain, forbidden)
    if secret is not None and not (anyway and secret is not Secret.FORBIDDEN):
        return Kept("", secret)
    if anyway:
        plain = text = _EMAIL.sub(CUT, plain)
    if not any(c.isnumeric() for c in plain) and not _LINK.search(plain):
        return Kept(text)
    cut = _WITH_FIGURE.sub(CUT, _LINK.sub(CUT, plain))
    cut = "".join(CUT if c.isnumeric() else c for c in cut)
    return Kept(cut if any(c.isalpha() for c in cut) else "")


def _secret_in(text: str, forbidden: Sequence[str]) -> Secret | None:
    folded = text.casefold()
    if any(_has_word(folded, word.casefold()) for word in forbidden):
        return Secret.FORBIDDEN
    if any(_TOKEN_IN_LINK.search(link) for link in _LINK.findall(text)):
        return Secret.TOKEN_LINK
    if _EMAIL.search(text):
        return Secret.EMAIL
    if any(_begins_with_iban(found) for found in _IBAN.findall(text)):
        return Secret.IBAN
    for number in _NUMBER.findall(text):
        digits = "".join(c for c in number if c.isdigit())
        if 12 <= len(digits) <= 19 and passes_luhn(digits):
            return Secret.CARD
        if len(digits) >= LONG_NUMBER_DIGITS:
            return Secret.LONG_NUMBER
    without_links = _LINK.sub("", text)
    if any(_looks_like_a_password(run) for run in _RUN.findall(without_links)) or spelt_secrets.is_key(without_links):
        return Secret.PASSWORD
    if spelt_secrets.is_spelt_address(without_links):
        return Secret.EMAIL
    if spelt_secrets.is_spelt_number(text):
        return Secret.LONG_NUMBER
    if spelt_secrets.is_seed_phrase(text):
        return Secret.SEED_PHRASE
    return Secret.NAMED if named_secrets.follows_its_name(without_links) else None


def passes_luhn(digits: str) -> bool:
    """Whether the checksum of a card number is right (ISO/IEC 7812-1, annex B).

    >>> passes_luhn("4111111111111111"), passes_luhn("4111111111111112")
    (True, False)
    """
    doubled = [2 * int(c) for c in digits[-2::-2]]
    return (sum(int(c) for c in digits[::-2]) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the checksum of an account number is right (ISO 13616, modulo 97).

    >>> is_iban("GB82 WEST 1234 5698 7654 32"), is_iban("GB82 WEST 1234 5698 7654 33")
    (True, False)
    """
    letters = "".join(text.split()).upper()
    if not 15 <= len(letters) <= 34 or not letters.isascii() or not letters.isalnum():
        return False
    return int("".join(str(int(c, 36)) for c in letters[4:] + letters[:4])) % 97 == 1


def _begins_with_iban(found: str) -> bool:
    """Whether the text begins with an account number; the pattern may also match words after the number."""
    compact = "".join(found.split())
    return any(is_iban(compact[:end]) for end in range(15, len(compact) + 1))


def _looks_like_a_password(run: str) -> bool:
    run = run.strip(".,;:!?()[]\"'…")
    if len(run) < SHORTEST_PASSWORD or _PATH.fullmatch(run):
        return False
    kinds = (str.isdigit, str.islower, str.isupper, lambda c: not c.isalnum() and c not in "-'’")  # noqa: RUF001
    mixed = any(map(str.isdigit, run)) and sum(any(map(kind, run)) for kind in kinds) >= 3
    return mixed or len(run) > LONGEST_WORD


def _has_word(folded: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", folded) is not None
