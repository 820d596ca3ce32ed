"""Decides whether a typed text that is not a word is a slip, and of which word.

A noisy-channel model (Kernighan, Church and Gale 1990): the user meant a word with the probability that the predictor
gives it, and slipped with a probability that depends on the layout of the keys; or the user meant the typed text
itself, a name or another unlisted word. The shorter the text, the more probable that it was meant, because most short
strings are one slip away from some word. Costs are negative natural logarithms of probabilities. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from nightjar.models.lexicon import fold

SLIP_FROM = 3
"""Shortest prefix, in letters, that is checked for slips: every shorter word is one slip away from another."""
SPELT_ALIKE = 2.0
"""Cost of leaving out accents and apostrophes, for a word that goes on."""
LEFT_OUT = 0.5
"""The same for a whole word: people leave them out at nearly every chance."""
NEAR, SWAPPED, MISSED, FAR = 4.0, 4.5, 4.5, 7.0
"""Costs of a neighbouring key struck instead or in addition, of two transposed letters, of a missing letter, and of any
other key."""
OTHER_ACCENT = 4.0
"""Cost of another accent than the right one (perchè). One that the word lacks altogether is like a far key."""
VOWEL, DOUBLED, I_AND_E = 4.5, 3.0, 2.0
"""Costs of slips of the mind: another vowel (seperate), a letter once instead of twice (hapy), ei for ie (wierd)."""
FIRST_LETTER, FIRST_SWAPPED = 3.0, 1.0
"""Added cost at the first letter of a word, which people rarely get wrong (Yannakoudakis and Fawthrop 1983), unless it
only changed places with the second."""
CAPITAL = 3.0
"""Subtracted from the cost of an unlisted word with a capital, which may be a name at the beginning of a sentence."""
ENDING = 4.0
"""Added cost of a slip at a final s or ed: an unlisted form of a word is more probable than a slip in that place."""
UNLISTED, LETTER = 8.0, 1.2
"""Cost of an unlisted word, and of each of its letters."""
STRANGE, LEAST_STRANGE, MOST_STRANGE = 0.6, -1.0, 5.0
"""What strange spelling adds to that cost: a share of the strangeness, within bounds."""
ELIDED = 1.5
"""What an elided word costs more than the word itself (l'homme)."""
SHORTHAND = 2.5
"""Subtracted from the cost of at most three letters without a vowel, which may be shorthand (thx)."""
SWAPPED_FROM, MISSPELT_FROM, VOWEL_FROM = 4, 5, 7
"""Fewest letters of a slip of fingers that many share, of a misspelling, and of one by another vowel."""
LISTED = 2.0
"""Added cost of a slip if the typed text is a word of the model, though not of the language."""
LEARNING = 2.0
"""What each doubling of its count is worth to a text that may be a slip or a word of the person, in nats."""

_VOWELS = frozenset("aeiouyаеиоуыэюя")  # noqa: RUF001 - Cyrillic ones, too
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

    >>> slip_cost("thw", "the", "en"), slip_cost("hte", "the", "en"), slip_cost("wierd", "weird", "en")
    (4.0, 5.5, 2.0)

    Both words are folded, and one slip apart; ``language`` is the ISO 639 code that selects the layout.
    """
    if typed == meant:
        return LEFT_OUT
    at = next((n for n, (a, b) in enumerate(zip(typed, meant, strict=False)) if a != b), min(len(typed), len(meant)))
    near = neighbours(language)
    first = FIRST_LETTER
    if len(typed) < len(meant):
        cost = DOUBLED if meant[at] in meant[max(at - 1, 0) : at] else MISSED
    elif len(typed) > len(meant):
        beside = typed[max(at - 1, 0) : at] + typed[at + 1 : at + 2]
        cost = NEAR if any(key == typed[at] or (key, typed[at]) in near for key in beside) else FAR
    elif typed[at + 1 :] == meant[at + 1 :]:
        cost = VOWEL if at > 0 and {typed[at], meant[at]} <= _VOWELS else FAR
        cost = NEAR if (typed[at], meant[at]) in near else cost
    else:
        cost, first = (I_AND_E if {typed[at], meant[at]} == {"i", "e"} else SWAPPED), FIRST_SWAPPED
    if f"{typed}s" == meant or typed == f"{meant}s" or (typed == f"{meant}d" and meant.endswith("e")):
        cost += ENDING
    return cost + (first if at == 0 else 0.0)


def of_the_mind(typed: str, meant: str) -> bool:
    """Whether a long enough word is a misspelling rather than a slip of a finger.

    >>> of_the_mind("wierd", "weird"), of_the_mind("seperate", "separate"), of_the_mind("alsa", "also")
    (True, True, False)
    """
    differing = [(a, b) for a, b in zip(typed, meant, strict=False) if a != b]
    if len(typed) != len(meant) or differing[:1] == [(typed[0], meant[0])] or len(typed) < MISSPELT_FROM:
        return False
    swapped = len(differing) == 2 and {*differing[0]} == {"i", "e"}
    return swapped or (len(typed) >= VOWEL_FROM and len(differing) == 1 and {*differing[0]} <= _VOWELS)


def of_the_fingers(typed: str, meant: str) -> bool:
    """Whether two letters of a long enough word changed places, or one was typed twice or once: jsut, realy.

    >>> of_the_fingers("jsut", "just"), of_the_fingers("realy", "really"), of_the_fingers("git", "got")
    (True, True, False)
    """
    if len(typed) == len(meant):
        differing = [at for at, (a, b) in enumerate(zip(typed, meant, strict=True)) if a != b]
        return len(typed) >= SWAPPED_FROM and len(differing) == 2 and typed[differing[0]] == meant[differing[1]]
    shorter, longer = sorted((typed, meant), key=len)
    once = any(
        longer[:at] + longer[at + 1 :] == shorter for at in range(1, len(longer)) if longer[at] == longer[at - 1]
    )
    return len(typed) >= MISSPELT_FROM and once


def accents_lost(typed: str, meant: str) -> float:
    """Cost of having typed accents that a word with the same letters lacks, or has others of; 0 if it has them all.

    >>> accents_lost("perchè", "perché"), accents_lost("sé", "se"), accents_lost("ete", "été")
    (4.0, 7.0, 0.0)
    """
    accented = [letter for letter in typed if fold(letter) != letter]
    letters = list(meant)
    cost = 0.0
    for letter in accented:
        if letter in letters:
            letters.remove(letter)
            continue
        other = next((one for one in letters if one not in accented and fold(one) == fold(letter) != one), None)
        if other is not None:
            letters.remove(other)
        cost += OTHER_ACCENT if other is not None else FAR
    return cost


def accents_dropped(typed: str, meant: str) -> float:
    """Cost of having typed accents that a word one slip away lacks, apart from that of the key struck by mistake.

    >>> accents_dropped("benchè", "banche"), accents_dropped("übre", "über"), accents_dropped("hañlo", "hallo")
    (7.0, 0.0, 0.0)
    """
    letters = [letter for letter in typed if fold(letter)]
    folded, other = "".join(map(fold, letters)), fold(meant)
    at = next((n for n, (a, b) in enumerate(zip(folded, other, strict=False)) if a != b), len(other))
    if folded[at + 1 :] in (other[at:], other[at + 1 :]):
        del letters[at : at + 1]
    return accents_lost("".join(letters), meant)


def unlisted_cost(typed: str, strangeness: float = 0.0) -> float:
    """Cost of having meant the typed text, an unlisted word, in nats.

    ``strangeness`` is that of :class:`nightjar.edge_agent.keyboard.spelling.Spelling`.
    """
    strange = min(max(STRANGE * strangeness, LEAST_STRANGE), MOST_STRANGE)
    if "'" in typed.replace("\u2019", "'").strip("'"):
        strange = -MOST_STRANGE  # nobody strikes an apostrophe by mistake: y'all
    if len(typed) <= 3 and not _VOWELS & set(typed.lower()):
        strange = -SHORTHAND
    return UNLISTED + LETTER * len(typed) + strange - (CAPITAL if typed != typed.lower() else 0.0)
