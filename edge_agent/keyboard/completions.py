"""Chooses words: the best next words, the words that a typed prefix may mean, and those that a glide may mean.

*Autocorrection.* A finished word must not be replaced without reason. So space takes a word only if the device has a
lexicon of the language and it lacks the typed text. A word that has the typed letters, and accents or apostrophes that
were left out, comes before any other. Else a slip must be more probable than an unlisted word
(:mod:`nightjar.edge_agent.keyboard.correction`), or than the typed word where the model or the person knows it. Names
(a capital inside a sentence), numbers, abbreviations and words attached to a sign (``@ada``) are left alone. The page
shows which word space would take, and backspace undoes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from nightjar.edge_agent.keyboard import correction
from nightjar.edge_agent.keyboard.glide import Keys
from nightjar.edge_agent.keyboard.refused import OVERLOOKED
from nightjar.edge_agent.keyboard.scored_words import LanguageWords, OwnWords, Part, ScoredWord, Sources, each_once
from nightjar.edge_agent.keyboard.typed import Typed, in_case_of, plain
from nightjar.models.lexicon import elisions, fold, with_umlauts
from nightjar.models.vocabulary import FIRST_WORD, MAX_WORD_CHARACTERS, OOV

GLIDED = 4
"""Words that a glide over the keys is offered as."""
ELIDING = frozenset({"fr", "it"})
"""Languages that write a short word and the next one together, with an apostrophe: l'homme, un'altra."""
_LONGEST_ELISION = 6
LONG_NOUN = 8
"""Letters from which a German word with a capital is taken for a noun rather than for a name."""
_USUAL = 1e-4
"""Share of a word in the text of a language from which it is usual: one of the two thousand commonest."""
TIMES, TIMES_OF_A_USUAL, TIMES_IN_GERMAN = 20.0, 9.0, 250.0
"""How many times as common a word with accents must be as a listed word without them, which is then taken for it: agua,
ano, foret, cosi. People leave accents out of a tenth of the words or more."""
_MOST_SLIPS = 20
"""Maximum corrections considered per word list; the most probable ones are kept."""


def next_words(sources: Sources, count: int) -> tuple[str, ...]:
    """The best next words of all lists, the most probable first, as they are written."""
    ranked = sorted(
        (one for part in sources.parts() for one in part.top(part.next, count)),
        key=lambda one: -one.score,
    )
    return tuple(sources.own.written.get(one.word, one.word) for one in each_once(ranked)[:count])


def glided(sources: Sources, points: Sequence[tuple[float, float]], keys: Keys) -> tuple[str, ...]:
    """The words that a line over the keys may mean, the most probable first, as they are written.

    The line and the keys are as in :meth:`nightjar.edge_agent.keyboard.suggestions.Suggester.glide`.
    """
    line = np.array(points, np.float32)
    ranked = sorted(
        (one for part in sources.parts() for one in part.words.glided(part.offered(), line, keys, GLIDED)),
        key=lambda one: -one.score,
    )
    return tuple(sources.own.written.get(one.word, one.word) for one in each_once(ranked)[:GLIDED])


def completions(
    sources: Sources, typed: Typed, count: int, passed_over: Collection[str] = frozenset()
) -> tuple[list[str], bool]:
    """Words that may be meant by a prefix, in the typed case; and whether space takes the first one.

    ``typed`` has a prefix. There may be one or two words more than ``count``, or fewer. ``passed_over`` has the words
    that were offered for a shorter beginning of it (:mod:`nightjar.edge_agent.keyboard.refused`).
    """
    prefix = typed.prefix
    if len(prefix) > MAX_WORD_CHARACTERS:
        return [prefix], False  # no word, and to look for slips in it would take seconds
    lower = plain(prefix)
    parts, language = sources.parts(), sources.language
    # More than needed: what does not begin exactly as typed, or was passed over, loses some of its score yet.
    looked_at = 2 * count + len(passed_over)
    going_on = [
        one._replace(
            score=one.score
            - (0.0 if one.word.startswith(lower) else correction.SPELT_ALIKE)
            - (OVERLOOKED if one.word in passed_over else 0.0)
        )
        for part in parts
        for one in part.top(part.words.lexicon.beginning_with(prefix), looked_at)
        if one.word != lower  # a place for what is typed already saves nothing
    ]
    meant, slips = _meant(sources, parts, typed, lower)
    takes = meant is not None and language is not None and _may_change(typed, meant.word, language.code)
    first = [meant] if takes and meant is not None else []
    ranked = each_once(first + sorted(going_on + slips, key=lambda one: -one.score))
    words = [one.word for one in ranked if not (takes and one.word == lower)][:count]
    if takes:
        words.insert(1, lower)  # one tap keeps what was typed
    elif lower not in words:
        words.append(lower)
    if len(words) < count:
        words += _alike(sources, parts, lower, count, words)
    return [_as_typed(word, prefix, lower, sources.own) for word in words], takes


def _meant(
    sources: Sources, parts: Sequence[Part], typed: Typed, lower: str
) -> tuple[ScoredWord | None, list[ScoredWord]]:
    """The word that was most probably meant by another text, None if it is the text itself; and all that may be."""
    language = sources.language
    if _has_figure(lower):
        return None, []
    code = "" if language is None else language.code
    if _is_listed(lower, sources):
        twin = _commoner_twin(lower, sources)
        found = [] if twin is None else [one for one in _left_out(parts, lower, code) if one.word == twin]
        return (found[0] if found else None), found
    itself = _score_of(lower, sources, parts)
    if language is None and itself is not None:
        return None, []
    left_out = _left_out(parts, lower, code)
    slips = _other_accents(parts, lower) + sorted(
        _slips(parts, lower, code, language) + _elided(parts, lower, code, left_out), key=lambda one: -one.score
    )
    if left_out and (itself is None or _is_likelier(left_out[0], itself, lower, sources)):
        return left_out[0], left_out + slips
    if itself is not None and lower not in sources.own and slips and _is_shared_slip(lower, slips[0].word, language):
        itself = None  # a slip that many people share, and so did those whom the model learned from
    if itself is not None:
        least = itself + correction.LISTED
    else:
        strangeness = 0.0 if language is None else language.spelling.strangeness(lower)
        least = -correction.unlisted_cost(typed.prefix, strangeness)
    taken = slips[0] if slips and slips[0].score > least else None
    # A text that is a word of somebody is no slip in the suggestions either, unless space would take the other word.
    return taken, left_out + (slips if itself is None or taken is not None else [])


def _forms(lower: str) -> list[str]:
    """A word as it stands, without quotation marks, and without the genitive; each once."""
    bare = lower.strip("'")
    return list(dict.fromkeys((lower, bare, bare.removesuffix("'s"))))


def _is_listed(lower: str, sources: Sources) -> bool:
    """Whether the language has the word, as it stands, in quotation marks, as a genitive or after an elision."""
    if sources.language is None:
        return False
    forms = _forms(lower)
    elided, _, rest = lower.strip("'").partition("'")
    if rest and sources.language.code in ELIDING and len(elided) <= _LONGEST_ELISION:
        forms.append(rest)
    return any(sources.language.words.lexicon.number_of(form) is not None for form in forms)


def _score_of(lower: str, sources: Sources, parts: Sequence[Part]) -> float | None:
    """The best score of the text itself among the words of the model and the person; None if it is none of them."""
    model, own = parts[0], parts[1]
    forms = _forms(lower)
    scores = [
        float(model.scores[number - FIRST_WORD])
        for form in forms
        if (number := sources.model.vocabulary.id_of(form)) != OOV and form not in sources.own.forgotten
    ]
    scores += [
        float(own.scores[place])
        for form in forms
        if form in sources.own and (place := own.words.lexicon.number_of(form)) is not None
    ]
    return max((score for score in scores if np.isfinite(score)), default=None)


def _left_out(parts: Sequence[Part], lower: str, language: str) -> list[ScoredWord]:
    """The words that a text is without their accents, apostrophes and umlauts, the most probable first."""
    if language == "it" and lower.endswith("'") and not lower.startswith("'"):
        # Who lacks the key writes an apostrophe after the vowel: perche', piu'.
        alike = _left_out(parts, lower.removesuffix("'"), language)
        return [one for one in alike if fold(one.word[-1]) != one.word[-1]]
    found = []
    for part in parts:
        lexicon = part.words.lexicon
        umlauts = {number for word in with_umlauts(lower, language) if (number := lexicon.number_of(word)) is not None}
        numbers = np.array(sorted(umlauts.union(lexicon.spelt_alike(lower).tolist())), np.int64)
        found += part.top(numbers, _MOST_SLIPS)
    alike = [
        one._replace(score=one.score - correction.LEFT_OUT)
        for one in found
        if one.word != lower and correction.accents_lost(lower, one.word) == 0
    ]
    return sorted(alike, key=lambda one: -one.score)


def _other_accents(parts: Sequence[Part], lower: str) -> list[ScoredWord]:
    """The words with the same letters that lack a typed accent, the most probable first.

    It is a slip, since nobody types an accent by mistake; but a likelier one than a slip in a letter.
    """
    if lower.isascii():
        return []
    found = [
        one._replace(score=one.score - lost)
        for part in parts
        for one in part.top(part.words.lexicon.spelt_alike(lower), _MOST_SLIPS)
        if one.word != lower and (lost := correction.accents_lost(lower, one.word)) > 0
    ]
    return sorted(found, key=lambda one: -one.score)


def _is_likelier(one: ScoredWord, itself: float, lower: str, sources: Sources) -> bool:
    """Whether a word is meant by a text that lacks its accents or apostrophe, though the model or the person knows it.

    Many people write whats, and so did those whom the model learned from; but cds are several, and no cd's.
    """
    if one.word.endswith("'s") and sources.language is not None:
        return sources.language.words.lexicon.number_of(one.word) is not None and lower not in sources.own
    return one.score > itself


def _elided(parts: Sequence[Part], lower: str, language: str, alike: Sequence[ScoredWord]) -> list[ScoredWord]:
    """The words that a text is without the apostrophe after an elision, if no word has the same letters."""
    if alike:
        return []
    return [
        ScoredWord(one.score - correction.ELIDED, f"{elided}'{one.word}")
        for elided, rest in elisions(lower, language)
        for part in parts
        for one in part.top(part.words.lexicon.spelt_alike(rest), 1)
    ]


def _is_shared_slip(lower: str, meant: str, language: LanguageWords | None) -> bool:
    """Whether a text that the model knows is a slip all the same, which many people make."""
    if correction.of_the_mind(lower, meant):
        return True
    return language is not None and correction.of_the_fingers(lower, meant) and language.share_of(meant) >= _USUAL


def _commoner_twin(lower: str, sources: Sources) -> str | None:
    """A word with the accents that were left out of a listed one, if it is so common that the other is hardly meant.

    In English a word without its apostrophe or accent is mostly another one (were, wont, resume). A German one without
    its umlaut often is (mochte, Ware), as people write ae, oe and ue where they lack the key.
    """
    language = sources.language
    if language is None or language.code == "en" or lower in sources.own or fold(lower) != lower:
        return None
    lexicon = language.words.lexicon
    alike = [lexicon.words[number] for number in lexicon.spelt_alike(lower).tolist()]
    twins = [word for word in alike if word != lower and len(word) == len(lower)]
    share = language.share_of(lower)
    if not twins or share == 0:
        return None
    best = max(twins, key=language.share_of)
    times = TIMES_OF_A_USUAL if language.share_of(best) >= _USUAL else TIMES
    if language.code == "de":
        times = TIMES_IN_GERMAN
    return best if language.share_of(best) >= times * share else None


def _slips(parts: Sequence[Part], lower: str, code: str, language: LanguageWords | None) -> list[ScoredWord]:
    """The words that one slip turns into a text, the most probable first."""
    folded = fold(lower)
    if len(folded) < correction.SLIP_FROM:
        return []
    slips = []
    for part in parts:
        scores = part.scores
        numbers = part.one_slip_away(lower)
        if language is not None and part.words is language.words:
            # A model that has seen little text underrates common words, which slips are mostly of.
            scores = scores.copy()
            scores[numbers] = np.maximum(scores[numbers], language.floor[numbers])
        slips += [
            one._replace(
                score=one.score
                - correction.slip_cost(folded, fold(one.word), code)
                - correction.accents_dropped(lower, one.word)
            )
            for one in part.words.top(scores, part.allowed(numbers), _MOST_SLIPS)
            if fold(one.word) != folded
        ]
    return sorted(slips, key=lambda one: -one.score)


def _may_change(typed: Typed, meant: str, language: str) -> bool:
    """Whether the typed text may be corrected at all: names, numbers and abbreviations are left alone.

    German nouns have a capital, too, so there only what is hardly a name is corrected.
    """
    prefix = typed.prefix
    abbreviation, name = prefix[1:] != prefix[1:].lower(), prefix[0].isupper() and bool(typed.finished)
    name = name and not (meant.startswith("i'") and fold(prefix) == fold(meant))  # Ive, Im; but not Ivo
    if language == "de":
        lower = plain(prefix)
        spelt_alike = fold(lower) == fold(meant) or meant in with_umlauts(lower, language)
        slipped = correction.of_the_fingers(lower, meant) or len(lower) >= LONG_NOUN
        name = name and not (spelt_alike or slipped)
    return len(prefix) > 1 and not (typed.glued or abbreviation or name or _has_figure(prefix))


def _has_figure(text: str) -> bool:
    return any(character.isnumeric() for character in text)


def _alike(sources: Sources, parts: Sequence[Part], typed: str, count: int, found: Sequence[str]) -> list[str]:
    """Words with a similar beginning, for a slip near the end: more than half of the prefix must match."""
    more: list[str] = []
    listed = parts[0]
    for kept in range(len(typed) - 1, len(typed) // 2, -1):
        if len(found) + len(more) >= count:
            break
        numbers = listed.allowed(listed.words.lexicon.beginning_with(typed[:kept]))
        near = listed.words.top(sources.next.scores, numbers, count + len(found))
        more += [one.word for one in near if one.word not in found and one.word not in more]
    return more


def _as_typed(word: str, prefix: str, lower: str, own: OwnWords) -> str:
    return prefix if word == lower else in_case_of(own.written.get(word, word), prefix)
