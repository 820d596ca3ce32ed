"""Statistics of the whole population: what its devices do, which versions they hold, and samples of both over time.

Data types and pure sums; the database counts devices, and :mod:`coordinator.storage.census` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coordinator.versions.releases import DeviceGroup
from coordinator.versions.rollout import Stage

GROUPS: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"checked-in"}),
    "at work": frozenset({"preparing", "training", "finishing", "reporting"}),
    "resting": frozenset({"resting", "settling"}),
    "not eligible": frozenset({"ineligible"}),
    "offline": frozenset({"offline"}),
}
"""Group shown to people -> its lifecycle states, in drawing order."""
ELIGIBLE = ("waiting", "at work")
"""Groups whose devices are surely idle, charging and unmetered; a resting device may or may not be."""
OTHER = "other"
"""Group of devices that never reported a state, or reported an unknown one."""


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """One count of all devices.

    Attributes:
        counted_s: wall-clock time.
        known: number of devices ever heard from.
        states: (lifecycle state, reason) -> number of devices; the reason is empty except for ineligible devices.
        holders: version -> number of devices heard from lately that report it; None stands for older ones.
        offers: the task types and codecs that a device offers (:class:`coordinator.rounds.lease.Lease`) -> number of
            devices.
        releases: stage -> devices that tried the agent's release in that stage, if it is on trial or current.
    """

    counted_s: float
    known: int
    states: Mapping[tuple[str, str], int]
    holders: Mapping[int | None, int]
    offers: Mapping[tuple[str, str], int] = {}
    releases: Mapping[Stage, DeviceGroup] = {}

    @property
    def groups(self) -> dict[str, int]:
        """Devices in each of :data:`GROUPS`, and ``other`` if there are any."""
        return grouped(self.states)

    @property
    def eligible(self) -> int:
        """Devices that could take part now."""
        return sum(self.groups[name] for name in ELIGIBLE)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of the fleet at one moment, for the plots over time.

    Attributes:
        at_s: wall-clock time.
        groups: group -> number of devices (:attr:`Census.groups`).
        holders: version -> number of devices (:attr:`Census.holders`); the version as a string, ``older`` for None.
        reports: reports accepted so far.
        bytes_up: bytes received from devices so far.
        bytes_down: bytes sent to devices so far, without those served by a proxy or cache in front of us.
        busy: share of one core that this process used since the previous sample.
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
    counts = dict.fromkeys(GROUPS, 0)
    for (state, _reason), devices in states.items():
        name = next((name for name, members in GROUPS.items() if state in members), OTHER)
        counts[name] = counts.get(name, 0) + devices
    return counts
