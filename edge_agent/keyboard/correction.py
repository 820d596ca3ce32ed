"""Decides whether a typed text that is not a word is a slip, and of which word.

A noisy-channel model (Kernighan, Church and Gale 1990): the user meant a word with the probability that the predictor
gives it, and slipped with a probability that depends on the layout of the keys; or the user meant the typed text
itself, a name or another unlisted word. The shorter the text, the more probable that it was meant, because most short
strings are one slip away from some word. Costs are negative natural logarithms of probabilities. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

SLIP_FROM = 3
"""Shortest prefix, in letters, that is checked for slips: every shorter word is one slip away from another."""
SPELT_ALIKE = 2.0
"""Cost of leaving out accents and apostrophes."""
NEAR, SWAPPED, MISSED, FAR = 4.0, 4.5, 4.5, 7.0
"""Costs of a neighbouring key struck instead or in addition, of two transposed letters, of a missing letter, and of any
other key."""
FIRST_LETTER = 3.0
"""Added cost at the first letter of a word, which people rarely get wrong (Yannakoudakis and Fawthrop 1983)."""
CAPITAL = 3.0
"""Subtracted from the cost of an unlisted word with a capital, which may be a name at the beginning of a sentence."""
ENDING = 4.0
"""Added cost of a slip at a final s: an unlisted plural is more probable than a slip in that place."""
UNLISTED, LETTER = 8.0, 1.2
"""Cost of an unlisted word, and of each of its letters."""

_ROWS = {
    "de": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "es": ("qwertyuiop", "asdfghjklñ", "zxcvbnm"),
    "fr": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "ru": ("йцукенгшщзх", "фывапролджэ", "ячсмитьбю"),
}
_QWERTY = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHIFTED = (0.0, 0.25, 0.75)
"""Offset of each row to the right of the first one, in keys."""
_REACH = 1.3
"""Largest distance of neighbours, in keys: the two beside a key, and those above and below that touch it."""


@functools.cache
def key_centres(language: str) -> Mapping[str, tuple[float, float]]:
    """The letters of a layout and the centres of their keys, (right, down) from the first key, in keys.

    >>> key_centres("en")["q"], key_centres("en")["a"], key_centres("fr")["q"]
    ((0.0, 0.0), (0.25, 1.0), (0.25, 1.0))

    A language, by its ISO 639 code, without a layout of its own uses QWERTY.
    """
    rows = zip(_ROWS.get(language, _QWERTY), _SHIFTED, strict=True)
    return {letter: (x + shift, float(y)) for y, (row, shift) in enumerate(rows) for x, letter in enumerate(row)}


@functools.cache
def neighbours(language: str) -> frozenset[tuple[str, str]]:
    """Pairs of letters whose keys touch each other.

    >>> ("a", "s") in neighbours("en"), ("a", "q") in neighbours("en"), ("a", "p") in neighbours("en")
    (True, True, False)
    """
    places = key_centres(language)
    return frozenset(
        (a, b)
        for a, (ax, ay) in places.items()
        for b, (bx, by) in places.items()
        if a != b and (ax - bx) ** 2 + (ay - by) ** 2 <= _REACH**2
    )


def slip_cost(typed: str, meant: str, language: str) -> float:
    """Cost of typing one word when another was meant, in nats.

    >>> slip_cost("thw", "the", "en"), slip_cost("hte", "the", "en"), slip_cost("thr", "the", "fr")
    (4.0, 7.5, 4.0)

    Both words are folded, and one slip apart; ``language`` is the ISO 639 code that selects the layout.
    """
    if typed == meant:
        return SPELT_ALIKE
    at = next((n for n, (a, b) in enumerate(zip(typed, meant, strict=False)) if a != b), min(len(typed), len(meant)))
    near = neighbours(language)
    if len(typed) < len(meant):
        cost = MISSED
    elif len(typed) > len(meant):
        beside = typed[max(at - 1, 0) : at] + typed[at + 1 : at + 2]
        cost = NEAR if any(key == typed[at] or (key, typed[at]) in near for key in beside) else FAR
    elif typed[at + 1 :] == meant[at + 1 :]:
        cost = NEAR if (typed[at], meant[at]) in near else FAR
    else:
        cost = SWAPPED
    if f"{typed}s" == meant or typed == f"{meant}s":
        cost += ENDING
    return cost + (FIRST_LETTER if at == 0 else 0.0)


def unlisted_cost(typed: str) -> float:
    """Cost of having meant the typed text, an unlisted word, in nats."""
    return UNLISTED + LETTER * len(typed) - (CAPITAL if typed != typed.lower() else 0.0)
