"""Before and after: what two versions of the model suggest in messages of the user that neither was trained on here.

Only the fleet's model is compared; the keyboard adds the n-gram model and the user's history to both alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from nightjar.edge_agent.ports import Predictor
from nightjar.models.places import places
from nightjar.models.vocabulary import FIRST_WORD, words

SUGGESTIONS = 3


class ComparedPlace(msgspec.Struct, frozen=True):
    """A place in a message, and the words that each version suggests there, best first."""

    beginning: str
    meant: str
    before: tuple[str, ...]
    now: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True):
    """Two versions by number, and what they suggest; no places if there is nothing to compare yet."""

    before: int | None = None
    now: int | None = None
    places: tuple[ComparedPlace, ...] = ()


def compare(before: Predictor, now: Predictor, texts: Sequence[str]) -> Comparison:
    """Compare two versions with one vocabulary in the user's held-out messages.

    Raises:
        NightjarError: a version's predictor failed.
    """
    chosen = places([words(text) for text in texts], now.vocabulary)
    found = tuple(
        ComparedPlace(" ".join(place.beginning), place.meant, *(_best(each, place.beginning) for each in (before, now)))
        for place in chosen
    )
    return Comparison(before.version, now.version, found)


def _best(predictor: Predictor, beginning: Sequence[str]) -> tuple[str, ...]:
    scores = predictor.scores(beginning)[FIRST_WORD:]
    ranked = np.argsort(-scores, kind="stable")[:SUGGESTIONS]
    return tuple(predictor.vocabulary.words[number] for number in ranked.tolist())
