"""Power, from ``/sys/class/power_supply``: does the device charge, and how full is it?

An own reader, because the usual libraries take a wireless mouse's battery for the system's, look at one battery only,
and see "Not charging" (a charge limit reached, on mains) as not charging.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, battery_reading
from edge_agent.shell.probes.files import number, text

MAINS = ("Mains", "USB", "Wireless")
"""Beginnings of the supply types that feed the device; ``USB_C`` and ``USB_PD`` are among them."""


@dataclass(frozen=True, slots=True)
class Supply:
    """One entry of ``/sys/class/power_supply`` that belongs to the device itself.

    Attributes:
        name: of the entry.
        kind: ``Battery``, ``Mains``, ``USB``, ...
        online: whether it feeds the device; None if it does not say.
        status: of a battery: ``Charging``, ``Discharging``, ``Not charging``, ``Full``, ``Unknown`` or nothing.
        level: of a battery, 0 to 1.
        temperature_c: of a battery.
    """

    name: str
    kind: str
    online: bool | None
    status: str
    level: float | None
    temperature_c: float | None


def supplies(root: Path) -> list[Supply]:
    """The supplies of the device; not those of a mouse or a headset, and no empty bay."""
    folder = root / "sys/class/power_supply"
    found = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if text(entry / "scope") == "Device" or text(entry / "present") == "0":
            continue
        online, capacity, tenths_c = (number(entry / name) for name in ("online", "capacity", "temp"))
        found.append(
            Supply(
                name=entry.name,
                kind=text(entry / "type"),
                # 2 is "online, programmable": a USB charger that negotiated its voltage.
                online=None if online is None else online > 0,
                status=text(entry / "status"),
                level=None if capacity is None else capacity / 100,
                temperature_c=None if tenths_c is None else tenths_c / 10,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Power:
    """A probe.

    Attributes:
        root: where ``sys`` is.
        minimum_battery: share of a full battery.
        always_powered: there is no battery, whatever ``/sys`` says or does not say.
    """

    root: Path
    minimum_battery: float
    always_powered: bool = False

    def __call__(self) -> Readings:
        """Look now."""
        if self.always_powered:
            said = ConditionReading(Answer.YES, "configuration", "always powered")
            return {Condition.CHARGING: said, Condition.BATTERY_HIGH: said}
        folder = self.root / "sys/class/power_supply"
        if not folder.is_dir():
            why = "no power information; set conditions.always_powered if it has no battery"
            unknown = ConditionReading(Answer.UNKNOWN, str(folder), why)
            return {Condition.CHARGING: unknown, Condition.BATTERY_HIGH: unknown}
        found = supplies(self.root)
        batteries = [s for s in found if s.kind == "Battery"]
        if not batteries:
            mains = ConditionReading(Answer.YES, str(folder), "no battery, so on mains")
            return {Condition.CHARGING: mains, Condition.BATTERY_HIGH: mains}
        return {
            Condition.CHARGING: _charging(folder, batteries, [s for s in found if s.kind.startswith(MAINS)]),
            Condition.BATTERY_HIGH: _level(folder, batteries, self.minimum_battery),
        }


def _charging(folder: Path, batteries: list[Supply], mains: list[Supply]) -> ConditionReading:
    # A weak charger is online while the battery still drains: that is not charging.
    for battery in batteries:
        if battery.status == "Discharging":
            return ConditionReading(Answer.NO, f"{folder}/{battery.name}", "not charging")
    source = f"{folder}/{batteries[0].name}"
    if any(b.status == "Charging" for b in batteries) or any(s.online for s in mains):
        # "Not charging", "Full" or nothing while a charger feeds the device: a charge limit is reached.
        return ConditionReading(Answer.YES, source, "charging")
    plugs_known = any(s.online is not None for s in mains)
    if any(b.status == "Not charging" for b in batteries) or plugs_known:
        return ConditionReading(Answer.NO, source, "not charging")
    if any(b.status == "Full" for b in batteries):
        return ConditionReading(Answer.YES, source, "charging")
    return ConditionReading(Answer.UNKNOWN, source, "the battery does not say whether it is charging")


def _level(folder: Path, batteries: list[Supply], minimum: float) -> ConditionReading:
    # Two batteries are one store of energy; a bogus 0 % says nothing.
    levels = [b.level for b in batteries if b.level]
    level = sum(levels) / len(levels) if levels else None
    return battery_reading(level, minimum, f"{folder}/{batteries[0].name}")
