"""How the whole population is, in numbers: what its devices do, what they hold, and how that went over the day.

Data and pure sums; counting devices is the database's business, and when to count is
:mod:`coordinator.storage.census`'.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

GROUPS: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"checked-in"}),
    "at work": frozenset({"preparing", "training", "finishing", "reporting"}),
    "resting": frozenset({"resting", "settling"}),
    "not eligible": frozenset({"ineligible"}),
    "offline": frozenset({"offline"}),
}
"""What a person tells apart -> lifecycle states, in the order in which they are drawn."""
ELIGIBLE = ("waiting", "at work")
"""Groups whose devices are idle, charging and unmetered; one that was told to come back later may be so or not."""
OTHER = "other"
"""A device that never said what it does, or says something that we do not know."""


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """One count of all devices.

    Attributes:
        counted_s: wall-clock time.
        known: devices that were ever heard of.
        states: (lifecycle state, reason) -> devices; the reason is only told apart for ineligible ones.
        holders: version -> devices that were heard of lately and hold its weights; None stands for older weights.
    """

    counted_s: float
    known: int
    states: Mapping[tuple[str, str], int]
    holders: Mapping[int | None, int]

    @property
    def groups(self) -> dict[str, int]:
        """Devices in each of :data:`GROUPS`, and ``other`` if there are any."""
        return grouped(self.states)

    @property
    def eligible(self) -> int:
        """Devices that could take part now."""
        return sum(self.groups[name] for name in ELIGIBLE)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a moment, for the plots over the day.

    Attributes:
        at_s: wall-clock time.
        groups: as :attr:`Census.groups`.
        holders: version -> devices, as :attr:`Census.holders`, the version as a string and ``older`` for the rest.
        reports: accepted so far.
        bytes_up: from devices so far.
        bytes_down: to devices so far, without what a proxy or cache in front of us served.
        busy: share of one core that this process used since the sample before.
    """

    at_s: float
    groups: dict[str, int]
    holders: dict[str, int]
    reports: int
    bytes_up: int
    bytes_down: int
    busy: float


def grouped(states: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Devices in each of :data:`GROUPS`.

    >>> grouped({("ineligible", "in use"): 3, ("training", ""): 2, ("", ""): 1})
    {'waiting': 0, 'at work': 2, 'resting': 0, 'not eligible': 3, 'offline': 0, 'other': 1}
    """
    found = dict.fromkeys(GROUPS, 0)
    for (state, _reason), devices in states.items():
        name = next((name for name, members in GROUPS.items() if state in members), OTHER)
        found[name] = found.get(name, 0) + devices
    return found
