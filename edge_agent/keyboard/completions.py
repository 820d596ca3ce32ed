"""Chooses words: the best next words, the words that a typed prefix may mean, and those that a glide may mean.

*Autocorrection.* A finished word must not be replaced without reason. So space takes a word only if the device has a
lexicon of the language, the typed text is in no list (lexicon, vocabulary, own words), and a slip is more probable than
an unlisted word (:mod:`nightjar.edge_agent.keyboard.correction`). Names (a capital inside a sentence), numbers,
abbreviations and words attached to a sign (``@ada``) are left alone. The page shows which word space would take, and
backspace undoes it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

from nightjar.edge_agent.keyboard import correction
from nightjar.edge_agent.keyboard.glide import Keys
from nightjar.edge_agent.keyboard.scored_words import OwnWords, Part, ScoredWord, Sources, each_once
from nightjar.edge_agent.keyboard.typed import Typed, in_case_of
from nightjar.models.lexicon import fold
from nightjar.models.vocabulary import OOV

GLIDED = 4
"""Words that a glide over the keys is offered as."""
_MOST_SLIPS = 20
"""Maximum corrections considered per word list; the most probable ones are kept."""


def next_words(sources: Sources, count: int) -> tuple[str, ...]:
    """The best next words of all lists, the most probable first, as they are written."""
    ranked = sorted(
        (one for part in sources.parts() for one in part.words.top(part.scores, part.next, count)),
        key=lambda one: -one.score,
    )
    return tuple(sources.own.written.get(one.word, one.word) for one in each_once(ranked)[:count])


def glided(sources: Sources, points: Sequence[tuple[float, float]], keys: Keys) -> tuple[str, ...]:
    """The words that a line over the keys may mean, the most probable first, as they are written.

    The line and the keys are as in :meth:`nightjar.edge_agent.keyboard.suggestions.Suggester.glide`.
    """
    line = np.array(points, np.float32)
    ranked = sorted(
        (one for part in sources.parts() for one in part.words.glided(part.scores, line, keys, GLIDED)),
        key=lambda one: -one.score,
    )
    return tuple(sources.own.written.get(one.word, one.word) for one in each_once(ranked)[:GLIDED])


def completions(sources: Sources, typed: Typed, count: int) -> tuple[list[str], bool]:
    """Words that may be meant by a prefix, in the typed case; and whether space takes the first one.

    ``typed`` has a prefix. There may be one or two words more than ``count``, or fewer.
    """
    prefix = typed.prefix
    lower = unicodedata.normalize("NFC", prefix.lower())
    known = any(_is_known(form, sources) for form in _forms(lower))

    parts, language = sources.parts(), sources.language
    # More than needed: what does not begin exactly as typed loses some of its score yet.
    going_on = [
        one if one.word.startswith(lower) else one._replace(score=one.score - correction.SPELT_ALIKE)
        for part in parts
        for one in part.words.top(part.scores, part.words.lexicon.beginning_with(prefix), 2 * count)
    ]
    slips: list[ScoredWord] = []
    if not known and not _has_figure(prefix):
        slips = _slips(parts, prefix, "" if language is None else language.code)
    takes = bool(slips) and language is not None and _may_change(typed)
    takes = takes and slips[0].score > -correction.unlisted_cost(prefix)
    meant = slips[:1] if takes else []
    ranked = each_once(meant + sorted(going_on + slips, key=lambda one: -one.score))
    words = [one.word for one in ranked][:count]
    if takes:
        words.insert(1, lower)  # one tap keeps what was typed
    elif lower not in words:
        words.append(lower)
    if len(words) < count:
        words += _alike(sources, lower, count, words)
    return [_as_typed(word, prefix, sources.own) for word in words], takes


def _forms(lower: str) -> tuple[str, ...]:
    """Forms of a word, without quotation marks and genitive; the word is known if one of its forms is."""
    bare = lower.strip("'")
    return lower, bare, bare.removesuffix("'s")


def _is_known(word: str, sources: Sources) -> bool:
    if word in sources.own or sources.model.vocabulary.id_of(word) != OOV:
        return True
    return sources.language is not None and sources.language.words.lexicon.number_of(word) is not None


def _slips(parts: Sequence[Part], prefix: str, language: str) -> list[ScoredWord]:
    """The words that one slip turns into a prefix, the most probable first."""
    folded = fold(prefix)
    slips = [
        one._replace(score=one.score - correction.slip_cost(folded, fold(one.word), language))
        for part in parts
        for one in part.words.top(part.scores, part.one_slip_away(prefix), _MOST_SLIPS)
        if len(prefix) >= correction.SLIP_FROM or fold(one.word) == folded
    ]
    return sorted(slips, key=lambda one: -one.score)


def _may_change(typed: Typed) -> bool:
    """Whether the typed text may be corrected at all: names, numbers and abbreviations are left alone."""
    prefix = typed.prefix
    abbreviation, name = prefix[1:] != prefix[1:].lower(), prefix[0].isupper() and bool(typed.finished)
    return len(prefix) > 1 and not (typed.glued or abbreviation or name or _has_figure(prefix))


def _has_figure(text: str) -> bool:
    return any(character.isnumeric() for character in text)


def _alike(sources: Sources, typed: str, count: int, found: Sequence[str]) -> list[str]:
    """Words with a similar beginning, for a slip near the end: more than half of the prefix must match."""
    more: list[str] = []
    listed = sources.model.words
    for kept in range(len(typed) - 1, len(typed) // 2, -1):
        if len(found) + len(more) >= count:
            break
        near = listed.top(sources.next.scores, listed.lexicon.beginning_with(typed[:kept]), count + len(found))
        more += [one.word for one in near if one.word not in found and one.word not in more]
    return more


def _as_typed(word: str, prefix: str, own: OwnWords) -> str:
    if word == unicodedata.normalize("NFC", prefix.lower()):
        return prefix
    return in_case_of(own.written.get(word, word), prefix)
