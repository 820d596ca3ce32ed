"""A summary in words of what the devices outside a round are doing, for a person who waits for the round.

It is made from the number of devices in each state that devices reported themselves. Pure; the database counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

MOST_NAMED = 4
"""Maximum number of activities listed one by one; people do not read more."""
MOST_CHARACTERS = 40
"""Maximum length of a reason: devices choose the text freely, and the summary must stay one sentence."""

_WORDS = {
    "settling": "eligible only for a moment",
    "resting": "told to come back later",
    "preparing": "still at work",
    "training": "still at work",
    "reporting": "still at work",
    "offline": "offline",
}
_NOT_SAID = frozenset({"checked-in", ""})
"""States left out: these devices wait for the round, or never reported a state."""


def doing(states: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Number of devices per activity, most frequent first; devices that wait for the round are left out.

    >>> doing({("ineligible", "not charging"): 14, ("ineligible", "in use"): 2, ("checked-in", ""): 1})
    {'not charging': 14, 'in use': 2}

    ``states`` has (lifecycle state, reason) -> devices; the reason is used only for ineligible devices.
    """
    counted: Counter[str] = Counter()
    for (state, reason), devices in states.items():
        if state == "ineligible":
            counted[_clean(reason) or "not eligible"] += devices
        elif state not in _NOT_SAID:
            counted[_WORDS.get(state, "in another state")] += devices
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def sentence(counted: Mapping[str, int]) -> str:
    """The result of :func:`doing` as one line.

    >>> sentence({"not charging": 14, "in use": 2}), sentence({})
    ('14 not charging, 2 in use', '')
    """
    kinds = list(counted.items())
    named = [f"{devices} {what}" for what, devices in kinds[:MOST_NAMED]]
    others = sum(devices for _, devices in kinds[MOST_NAMED:])
    return ", ".join([*named, f"{others} for other reasons"] if others else named)


def _clean(reason: str) -> str:
    return "".join(c for c in reason if c.isprintable())[:MOST_CHARACTERS].strip()
