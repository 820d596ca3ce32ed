"""Measures autocorrection: intended words, which space must not change, and typos, which it should correct.

The text of most users is public: model and vocabulary are made from it. The others type their held-out messages word by
word into the keyboard's own suggester, with their earlier messages as history and the English lexicon.

- ``correct_changed_share``: share of correct words that space changes. A word counts as correct if a dictionary other
  than the product's has it (Debian's, see :mod:`nightjar.benchmarks.dictionary`), if it is capitalised inside a
  sentence, or if fifty users of the corpus typed it and it is not one slip from a word of that dictionary that they
  typed ten times as often.
- ``typos_mended_share``: share of typos that space corrects. A typo is a correct word of three letters or more with one
  of Damerau's four errors (1964), equally often: a neighbouring key instead of a letter or after it, an omitted letter,
  or two transposed letters. A typo that is itself a correct word is not counted.
- ``typos_among_three_share``: share of typos whose intended word is among the three suggestions before the space.
- ``peers``: pyspellchecker and symspellpy on the same words and typos; they see one word at a time.
- ``suggest_ms_p99``: latency from key press to suggestions while a typo is typed.

The constants of 2026-11-28 were chosen with the words that were changed in the test part in view; the users of
``--part validation`` are others, and were not looked at.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import click
import numpy as np
from rich.console import Console

from nightjar.benchmarks.dictionary import dictionary
from nightjar.benchmarks.keyboard import global_model, mixed
from nightjar.benchmarks.measuring import errors_in_a_line, print_json, quantile, show
from nightjar.edge_agent.keyboard.correction import neighbours
from nightjar.edge_agent.keyboard.lexicon import one_edit_away
from nightjar.edge_agent.keyboard.suggestions import Suggester
from nightjar.edge_agent.keyboard.whole import WholeKeyboard
from nightjar.models import corpora
from nightjar.models.configurations import CONFIGURATIONS, configuration
from nightjar.models.corpora import Corpus
from nightjar.models.lexicon import read_lexicon
from nightjar.models.vocabulary import WORD_PATTERN
from nightjar.models.word_lists import compiled
from nightjar.simulation.progress import progress

TITLE = "autocorrection by space"
LANGUAGE = "en"
SHORTEST = 3
"""Minimum number of letters of a word that gets a typo."""
PEOPLE, TIMES = 50, 10
"""A word of so many people is correct, unless it is one slip from a word that they typed so many times as often."""
_WORD = re.compile(WORD_PATTERN)
_LETTERS = re.compile(r"[^\W\d_]+\Z")


@dataclass(slots=True)
class CorrectionTally:
    """Counts of words and typos."""

    right: int = 0  # correct words that were typed
    changed: list[str] = field(default_factory=list)  # correct words that space changed, as "typed -> changed"
    typos: int = 0
    mended: int = 0  # typos that space corrected
    among: int = 0  # typos whose word was among the suggestions before the space
    times_s: list[float] = field(default_factory=list)  # latencies from key press to suggestions

    def shares(self) -> dict[str, float]:
        """Shares from 0 to 1, by name."""
        return {
            "correct_changed_share": len(self.changed) / max(1, self.right),
            "typos_mended_share": self.mended / max(1, self.typos),
            "typos_among_three_share": self.among / max(1, self.typos),
        }


Keyboard = Callable[[str, str], tuple[str, Sequence[str]]]
"""(text before, word as typed) -> the word after space, and the suggestions; both in lower case."""


def slip(word: str, generator: np.random.Generator) -> str:
    """The word in lower case with one typing error, of a kind, place and key that the generator chooses."""
    near = defaultdict(list)
    for a, b in sorted(neighbours(LANGUAGE)):
        near[a].append(b)
    at = int(generator.integers(len(word)))
    key = str(generator.choice(near.get(word[at], [word[at]])))
    match generator.integers(4):
        case 0:
            return word[:at] + key + word[at + 1 :]
        case 1:
            return word[: at + 1] + key + word[at + 1 :]
        case 2:
            return word[:at] + word[at + 1 :]
        case _:
            at = min(at, len(word) - 2)
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


class RightWords:
    """The words that count as correct: those of a dictionary, and words of the corpus that no slip explains."""

    def __init__(self, corpus: Corpus, dictionary: Set[str]) -> None:
        users: defaultdict[str, set[str]] = defaultdict(set)
        typed: Counter[str] = Counter()
        for user, messages in corpus.users.items():
            for message in messages:
                for word in _WORD.findall(message.lower()):
                    users[word].add(user)
                    typed[word] += 1
        usual = {word for word in dictionary if word in typed}
        letters = sorted({letter for word in usual for letter in word})

        def may_be_a_slip(word: str) -> bool:
            return any(d in usual and typed[d] >= TIMES * typed[word] for d in one_edit_away(word, letters))

        self._shared = {
            word
            for word, people in users.items()
            if len(people) >= PEOPLE and word not in dictionary and not may_be_a_slip(word)
        }
        self._dictionary = dictionary

    def __contains__(self, word: str) -> bool:
        return word in self._shared or word in self._dictionary


def typed_words(message: str) -> Iterator[tuple[str, str]]:
    """(text before, word as typed) of each word of a message."""
    for match in _WORD.finditer(message):
        yield message[: match.start()], match.group()


def measure(corpus: str, model: str, phones: int, messages: int, passes: float, seed: int, part: str) -> dict[str, Any]:
    """Results of the keyboard and of its peers; the help of the options explains the arguments."""
    text = corpora.load(corpus, seed)
    right = RightWords(text, dictionary())
    parts = corpora.split(text, phones, seed, messages)
    files, _ = global_model(parts, configuration(model), passes, seed)
    people = parts.phones[0::2] if part == "test" else parts.phones[1::2]
    lexicon = read_lexicon(compiled(LANGUAGE))
    ours, others = CorrectionTally(), {name: CorrectionTally() for name in PEERS}
    peers = {name: make() for name, make in PEERS.items()}
    generator = np.random.default_rng(seed)
    for person in progress(Console(stderr=True), people, "people"):
        keyboard = WholeKeyboard(mixed(files, person.typed), person.typed, lambda _: lexicon)
        for message in person.held_out:
            for before, word, typo in _typed(message, right, generator):
                _try(_through(keyboard.suggester), before, word, typo, right, ours)
                for name, peer in peers.items():
                    _try(peer, before, word, typo, right, others[name])
            keyboard.send(message)
    return {
        **ours.shares(),
        "suggest_ms_p99": 1e3 * quantile(ours.times_s, 0.99),
        "right_words": ours.right,
        "typos": ours.typos,
        "peers": [{"keyboard": name, **outcome.shares()} for name, outcome in others.items()],
        "changed": ours.changed,
    }


def _typed(message: str, right: RightWords, generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """(text before, word, its typo or nothing) of each word."""
    for before, word in typed_words(message):
        lower = word.lower()
        typo = ""
        if len(lower) >= SHORTEST and lower in right and _LETTERS.match(lower) and lower.isascii():
            typo = slip(lower, generator)
        yield before, word, "" if typo in right else typo


def _try(keyboard: Keyboard, before: str, word: str, typo: str, right: RightWords, outcome: CorrectionTally) -> None:
    name = word[0].isupper() and before.rstrip()[-1:] not in ("", ".", "!", "?")
    if word.lower() in right or name:
        outcome.right += 1
        got, _ = keyboard(before, word)
        if got != word.lower():
            outcome.changed.append(f"{word} -> {got}")
    if typo:
        start = time.perf_counter()
        got, offered = keyboard(before, typo)
        outcome.times_s.append(time.perf_counter() - start)
        outcome.typos += 1
        outcome.mended += got == word.lower()
        outcome.among += word.lower() in (got, *offered)


def _through(suggester: Suggester) -> Keyboard:
    def press(before: str, typed: str) -> tuple[str, Sequence[str]]:
        shown = suggester.suggest(before + typed, language=LANGUAGE)
        offered = [word.lower() for word in shown.words]
        whole = shown.prefix == typed  # else the word continues the text before it
        return (offered[0] if shown.space_takes and whole else typed.lower()), offered

    return press


def _pyspellchecker() -> Keyboard:
    from spellchecker import SpellChecker

    checker = SpellChecker(language=LANGUAGE, distance=1)

    def press(_before: str, typed: str) -> tuple[str, Sequence[str]]:
        lower = typed.lower()
        found = sorted(checker.candidates(lower) or (), key=lambda word: -checker.word_usage_frequency(word))
        return checker.correction(lower) or lower, found[:3]

    return press


def _symspellpy() -> Keyboard:
    from symspellpy import SymSpell, Verbosity

    checker = SymSpell(max_dictionary_edit_distance=2)
    checker.load_dictionary(str(_symspell_words()), term_index=0, count_index=1, encoding="utf-8-sig")

    def press(_before: str, typed: str) -> tuple[str, Sequence[str]]:
        lower = typed.lower()
        found = [one.term for one in checker.lookup(lower, Verbosity.ALL, max_edit_distance=2)]
        return (found[0] if found else lower), found[:3]

    return press


def _symspell_words() -> Traversable:
    return resources.files("symspellpy").joinpath("frequency_dictionary_en_82_765.txt")


PEERS: dict[str, Callable[[], Keyboard]] = {"pyspellchecker": _pyspellchecker, "symspellpy": _symspellpy}


@click.command()
@click.option("--corpus", default="personas", show_default=True, help="personas, pydoc, or a TSV file (user, text).")
@click.option("--model", default="tiny", show_default=True, type=click.Choice(list(CONFIGURATIONS)))
@click.option("--phones", default=40, show_default=True, type=click.IntRange(2), help="Users; half of them per part.")
@click.option("--messages", default=200, show_default=True, type=click.IntRange(5), help="Per user; a fifth is typed.")
@click.option("--passes", default=1.0, show_default=True, type=click.FloatRange(0, 1000), help="Training passes.")
@click.option("--seed", default=7, show_default=True, type=click.IntRange(0, 2**31))
@click.option("--part", default="test", show_default=True, type=click.Choice(["test", "validation"]))
@click.option("--json", "as_json", is_flag=True)
def main(
    *, corpus: str, model: str, phones: int, messages: int, passes: float, seed: int, part: str, as_json: bool
) -> None:
    """Measure autocorrection on held-out messages, typed with and without typos."""
    with errors_in_a_line("correction"):
        figures = measure(corpus, model, phones, messages, passes, seed, part)
    if as_json:
        print_json(figures)
        return
    ours = {name: value for name, value in figures.items() if not isinstance(value, list)}
    show(TITLE, [{"keyboard": "nightjar", **ours}])
    show("peers", figures["peers"])
    click.echo("changed: " + ", ".join(figures["changed"][:20]))


if __name__ == "__main__":
    main()
