"""Statistics of the whole population: what its devices do, which versions they hold, and samples of both over time.

Data types and pure sums; the database counts devices, and :mod:`nightjar.coordinator.storage.census` decides when.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from nightjar.coordinator.versions.releases import DeviceGroup
from nightjar.coordinator.versions.rollout import Stage

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
REVOKED, BLOCKED, LOST, NEVER = "revoked", "blocked", "lost", "never heard of"
APART = (REVOKED, BLOCKED, LOST, NEVER)
"""Why devices are not of the fleet, as :mod:`nightjar.coordinator.storage.apart` finds it."""


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """One count of all devices."""

    counted_s: float  # wall-clock time
    known: int  # devices of the fleet: heard of lately, and neither revoked nor blocked
    states: Mapping[tuple[str, str], int]  # (lifecycle state, reason, empty except for ineligible ones) -> devices
    holders: Mapping[int | None, int]  # version -> devices heard from lately that report it; None for older ones
    offers: Mapping[tuple[str, str], int] = {}  # (task types, codecs), as in a lease -> devices that offer them
    releases: Mapping[Stage, DeviceGroup] = {}  # stage on trial or current -> devices that tried the release in it
    apart: Mapping[str, int] = {}  # why devices are not of the fleet -> devices, as in coordinator.storage.apart

    @property
    def groups(self) -> dict[str, int]:
        """Devices in each of :data:`GROUPS`, and ``other`` if there are any."""
        counts = dict.fromkeys(GROUPS, 0)
        for (state, _reason), devices in self.states.items():
            name = next((name for name, members in GROUPS.items() if state in members), OTHER)
            counts[name] = counts.get(name, 0) + devices
        return counts

    @property
    def met(self) -> bool:
        """Whether any device was ever heard of."""
        return self.known > 0 or any(devices for why, devices in self.apart.items() if why != NEVER)

    @property
    def eligible(self) -> int:
        """Devices that could take part now."""
        return sum(self.groups[name] for name in ELIGIBLE)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of the fleet at one moment, for the plots over time."""

    at_s: float  # wall-clock time
    groups: dict[str, int]  # as Census.groups
    holders: dict[str, int]  # as Census.holders, with the version as a string, ``older`` for None
    reports: int  # accepted so far
    bytes_up: int  # received from devices so far
    bytes_down: int  # sent to devices so far, without those served by a proxy or cache in front of us
    busy: float  # share of one core that this process used since the previous sample
