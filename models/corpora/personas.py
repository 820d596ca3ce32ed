"""Synthetic chat messages of invented people: free to use, in any amount, different for each person.

Each person has a few topics, friends, places, weekly habits, spellings and favourite phrases, so the messages differ
between people as they do between devices. The text has a grammar to learn, but it is not real: metrics on it show that
training works, not how good a keyboard is.

The same seed gives the same people on every machine and Python: only ``random.Random.random`` is used, whose sequence
Python guarantees.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightjar.models.corpora.corpus import Corpus
from nightjar.models.corpora.phrasebook import CLOSINGS, DAYS, HABITS, NAMES, PLACES, RULES, SHORTENINGS, TOPICS
from nightjar.wire.errors import CorpusError

PEOPLE = 48
MESSAGES = 400

_TOPICS_EACH = 3
_FRIENDS_EACH = 5
_PLACES_EACH = 4
_HABITS_EACH = 3
_SLOT = re.compile(r"\{([\w ]+)\}")
_FAVOUR = 2
"""For each person, the weight of each alternative is this number to a random power from 0 to 3."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Alternatives and their cumulative weights for one person."""

    alternatives: tuple[str, ...]
    cumulative: tuple[int, ...]

    def pick(self, chance: random.Random) -> str:
        at = chance.random() * self.cumulative[-1]
        return next(a for a, bound in zip(self.alternatives, self.cumulative, strict=True) if at < bound)


@dataclass(frozen=True, slots=True)
class _Person:
    """How one person writes."""

    choices: Mapping[str, _Choice]
    shortenings: tuple[tuple[re.Pattern[str], str], ...]
    closing: str
    closing_share: float
    capitals: bool


def personas(seed: int, people: int = PEOPLE, messages: int = MESSAGES) -> Corpus:
    """Invent people and their messages.

    Each person gets a child seed, so more people do not change the first ones. Each has 0.5 to 1.5 times as many
    messages as the average.

    >>> personas(7, people=1, messages=2) == personas(7, people=1, messages=2)
    True

    Raises:
        CorpusError: fewer than one person or message.
    """
    if people < 1 or messages < 1:
        msg = f"personas need at least 1 person and 1 message each, got {people} and {messages}"
        raise CorpusError(msg)
    users = {}
    for number in range(people):
        # Not cryptography: a reproducible sequence is the point.
        chance = random.Random(f"nightjar personas {seed} {number}")  # noqa: S311
        name = NAMES[int(chance.random() * len(NAMES))]
        count = max(1, round(messages * (0.5 + chance.random())))
        person = _invent(chance)
        users[f"{name}-{number:03d}"] = tuple(_say(person, chance) for _ in range(count))
    return Corpus(f"personas (seed {seed})", users)


def _invent(chance: random.Random) -> _Person:
    topics = _sample(chance, tuple(TOPICS), _TOPICS_EACH)
    rules = dict(RULES)
    for _, slots in TOPICS.values():
        rules |= slots
    rules["about"] = tuple(f"{{about {topic}}}" for topic in topics)
    rules |= {f"about {topic}": TOPICS[topic][0] for topic in topics}
    rules["friend"] = _sample(chance, NAMES, _FRIENDS_EACH)
    rules["place"] = _sample(chance, PLACES, _PLACES_EACH)
    rules["habit"] = tuple(
        f"{what} is on {_one(chance, DAYS)} at {_one(chance, rules['place'])}"
        for what in _sample(chance, HABITS, _HABITS_EACH)
    )
    return _Person(
        choices={name: _favours(chance, alternatives) for name, alternatives in rules.items()},
        shortenings=tuple(
            (re.compile(rf"\b{long}\b", re.IGNORECASE), short) for long, short in SHORTENINGS if chance.random() < 0.3
        ),
        closing=_one(chance, CLOSINGS),
        closing_share=0.4 if chance.random() < 0.4 else 0.0,
        capitals=chance.random() < 0.6,
    )


def _say(person: _Person, chance: random.Random) -> str:
    text = person.choices["message"].pick(chance)
    while slot := _SLOT.search(text):
        text = text[: slot.start()] + person.choices[slot[1]].pick(chance) + text[slot.end() :]
    if chance.random() < person.closing_share:
        text = f"{text} {person.closing}"
    for long, short in person.shortenings:
        text = long.sub(short, text)
    return text if person.capitals else text.lower()


def _favours(chance: random.Random, alternatives: tuple[str, ...]) -> _Choice:
    total = 0
    cumulative = []
    for _ in alternatives:
        total += _FAVOUR ** int(chance.random() * 4)
        cumulative.append(total)
    return _Choice(alternatives, tuple(cumulative))


def _one(chance: random.Random, items: Sequence[str]) -> str:
    return items[int(chance.random() * len(items))]


def _sample(chance: random.Random, items: Sequence[str], count: int) -> tuple[str, ...]:
    """``count`` distinct items in random order."""
    return tuple(sorted(items, key=lambda _: chance.random())[:count])
