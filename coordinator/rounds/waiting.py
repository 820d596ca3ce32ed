"""What the devices do that do not take part, in words for a person who waits for a round.

From how many devices are in which state, as they said themselves. Pure; counting them is the database's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

MOST_NAMED = 4
"""Kinds that are named one by one; a person does not read more."""
MOST_CHARACTERS = 40
"""Of a reason: devices choose it freely, and the sentence must stay one."""

_WORDS = {
    "settling": "eligible only for a moment",
    "resting": "told to come back later",
    "preparing": "still at work",
    "training": "still at work",
    "reporting": "still at work",
    "offline": "offline",
}
_NOT_SAID = frozenset({"checked-in", ""})
"""Those wait for the round themselves, or never said what they do."""


def doing(states: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """How many devices do what, most frequent first; those that wait for the round are left out.

    >>> doing({("ineligible", "not charging"): 14, ("ineligible", "in use"): 2, ("checked-in", ""): 1})
    {'not charging': 14, 'in use': 2}

    Args:
        states: (lifecycle state, reason) -> devices; only an ineligible device's reason is looked at.
    """
    counted: Counter[str] = Counter()
    for (state, reason), devices in states.items():
        if state == "ineligible":
            counted[_clean(reason) or "not eligible"] += devices
        elif state not in _NOT_SAID:
            counted[_WORDS.get(state, "in another state")] += devices
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def sentence(counted: Mapping[str, int]) -> str:
    """The same as one line.

    >>> sentence({"not charging": 14, "in use": 2}), sentence({})
    ('14 not charging, 2 in use', '')
    """
    kinds = list(counted.items())
    named = [f"{devices} {what}" for what, devices in kinds[:MOST_NAMED]]
    others = sum(devices for _, devices in kinds[MOST_NAMED:])
    return ", ".join([*named, f"{others} for other reasons"] if others else named)


def _clean(reason: str) -> str:
    return "".join(c for c in reason if c.isprintable())[:MOST_CHARACTERS].strip()
