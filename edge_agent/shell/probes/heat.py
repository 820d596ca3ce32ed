"""Probe for the temperature of the batteries and of the thermal zones (processor, charger, modem).

If a zone reports the temperature at which the kernel begins to throttle the device (its passive trip point), that is
a limit for the zone too: at this point a phone counts as moderately hot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Condition, Readings, heat_reading
from nightjar.edge_agent.shell.probes.files import number, text
from nightjar.edge_agent.shell.probes.power import supplies

MAXIMUM_ZONE_C = 80.0
"""Temperature at which a Raspberry Pi throttles."""
COOLEST_TRIP_C = 40.0
"""A lower trip point means that the firmware leaves it unset or uses it for something else."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Probe for heat."""

    root: Path
    maximum_battery_c: float

    def __call__(self) -> Readings:
        """Take a reading now: from the sensor that is nearest to its limit, or furthest above it."""
        measured = [
            (s.temperature_c, self.maximum_battery_c, f"power_supply/{s.name}")
            for s in supplies(self.root)
            if s.kind == "Battery" and s.temperature_c is not None
        ]
        for zone in sorted(self.root.glob("sys/class/thermal/thermal_zone*")):
            millidegrees = number(zone / "temp")
            # A disabled zone reads 0 or some hundreds of degrees below zero.
            if millidegrees is not None and 0 < millidegrees < 150_000:
                limit_c = min([MAXIMUM_ZONE_C, *_passive_trips_c(zone)])
                measured.append((millidegrees / 1000, limit_c, f"{zone.name} {text(zone / 'type')}".strip()))
        hottest = max(measured, key=lambda one: one[0] - one[1], default=(None, MAXIMUM_ZONE_C, "thermal"))
        return {Condition.COOL: heat_reading(*hottest)}


def _passive_trips_c(zone: Path) -> list[float]:
    trips_c = []
    for kind in zone.glob("trip_point_*_type"):
        if text(kind) == "passive":
            millidegrees = number(kind.with_name(kind.name.replace("_type", "_temp")))
            if millidegrees is not None and millidegrees / 1000 >= COOLEST_TRIP_C:
                trips_c.append(millidegrees / 1000)
    return trips_c
