"""Decides whether letters that are no word are a slip of the finger, and of which word.

A noisy channel (Kernighan, Church and Gale 1990): a person meant a word with the probability that the predictor gives
it, and slipped with a probability that depends on where the keys lie; or meant just these letters, a name or a word
that is in no list. The shorter the letters, the likelier that they were meant: most short strings are one slip away
from some word. Costs are negative natural logarithms of probabilities. Pure.
"""

from __future__ import annotations

import functools

SLIP_FROM = 3
"""Letters from which on a slip is looked for: every shorter word is one slip away from another."""
SPELT_ALIKE = 2.0
"""Of leaving out accents and apostrophes."""
NEAR, SWAPPED, MISSED, FAR = 4.0, 4.5, 4.5, 7.0
"""Of a neighbouring key struck instead or besides; two letters in the wrong order; one left out; any other key."""
FIRST_LETTER = 3.0
"""More, for the first letter of a word, which people see and rarely get wrong (Yannakoudakis and Fawthrop 1983)."""
CAPITAL = 3.0
"""Less, for a word that is in no list, if it has a capital: at the beginning of a sentence a name has one, too."""
ENDING = 4.0
"""More, for an s at the end: a plural that no list has is likelier than a slip just there."""
UNLISTED, LETTER = 8.0, 1.2
"""Of a word that is in no list, and of each of its letters."""

_ROWS = {
    "de": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "es": ("qwertyuiop", "asdfghjklñ", "zxcvbnm"),
    "fr": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "ru": ("йцукенгшщзх", "фывапролджэ", "ячсмитьбю"),
}
_QWERTY = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_SHIFTED = (0.0, 0.25, 0.75)
"""How far each row begins to the right of the first, in keys."""
_REACH = 1.3
"""Distance of neighbours, in keys: the two beside a key, and those above and below that touch it."""


@functools.cache
def neighbours(language: str) -> frozenset[tuple[str, str]]:
    """Pairs of letters whose keys touch each other.

    >>> ("a", "s") in neighbours("en"), ("a", "q") in neighbours("en"), ("a", "p") in neighbours("en")
    (True, True, False)

    Args:
        language: ISO 639 code; of one without a layout of its own, QWERTY.
    """
    places = {
        letter: (x + shift, float(y))
        for y, (row, shift) in enumerate(zip(_ROWS.get(language, _QWERTY), _SHIFTED, strict=True))
        for x, letter in enumerate(row)
    }
    return frozenset(
        (a, b)
        for a, (ax, ay) in places.items()
        for b, (bx, by) in places.items()
        if a != b and (ax - bx) ** 2 + (ay - by) ** 2 <= _REACH**2
    )


def slip_cost(typed: str, meant: str, language: str) -> float:
    """What it costs to have struck one word's keys for another's, in nats.

    >>> slip_cost("thw", "the", "en"), slip_cost("hte", "the", "en"), slip_cost("thr", "the", "fr")
    (4.0, 7.5, 4.0)

    Args:
        typed: folded.
        meant: folded, one slip away.
        language: for its layout.
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
    """What it costs to have meant letters that are in no list, in nats."""
    return UNLISTED + LETTER * len(typed) - (CAPITAL if typed != typed.lower() else 0.0)
