"""Probe for power, from ``/sys/class/power_supply``: whether the device is charging, and its battery level.

We read it ourselves, because the usual libraries mistake a wireless mouse's battery for the system's, look at one
battery only, and take the status "Not charging" (on mains with a charge limit reached) literally.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, battery_reading
from nightjar.edge_agent.shell.probes.files import number, text

MAINS = ("Mains", "USB", "Wireless")
"""Prefixes of the supply types that feed the device; they cover ``USB_C`` and ``USB_PD``."""


@dataclass(frozen=True, slots=True)
class Supply:
    """One entry of ``/sys/class/power_supply`` that belongs to the device itself.

    Attributes:
        online: whether it feeds the device; None if not reported.
        status: of a battery: ``Charging``, ``Discharging``, ``Not charging``, ``Full``, ``Unknown`` or empty.
        level: of a battery, 0 to 1; None if not reported.
    """

    name: str
    kind: str
    online: bool | None
    status: str
    level: float | None
    temperature_c: float | None


def supplies(root: Path) -> list[Supply]:
    """The supplies of the device itself, without those of a mouse or a headset and without empty battery bays."""
    folder = root / "sys/class/power_supply"
    present = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if text(entry / "scope") == "Device" or text(entry / "present") == "0":
            continue
        online, capacity, tenths_c = (number(entry / name) for name in ("online", "capacity", "temp"))
        present.append(
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
    return present


@dataclass(frozen=True, slots=True)
class Power:
    """Probe for charging and battery level.

    ``always_powered``: the device has no battery, whatever ``/sys`` reports.
    """

    root: Path
    minimum_battery: float
    always_powered: bool = False

    def __call__(self) -> Readings:
        """Take a reading now."""
        if self.always_powered:
            powered = ConditionReading(Answer.YES, "configuration", "always powered")
            return {Condition.CHARGING: powered, Condition.BATTERY_HIGH: powered}
        folder = self.root / "sys/class/power_supply"
        if not folder.is_dir():
            why = "no power information; set conditions.always_powered if it has no battery"
            unknown = ConditionReading(Answer.UNKNOWN, str(folder), why)
            return {Condition.CHARGING: unknown, Condition.BATTERY_HIGH: unknown}
        present = supplies(self.root)
        batteries = [s for s in present if s.kind == "Battery"]
        if not batteries:
            mains = ConditionReading(Answer.YES, str(folder), "no battery, so on mains")
            return {Condition.CHARGING: mains, Condition.BATTERY_HIGH: mains}
        return {
            Condition.CHARGING: _charging(folder, batteries, [s for s in present if s.kind.startswith(MAINS)]),
            Condition.BATTERY_HIGH: _level(folder, batteries, self.minimum_battery),
        }


def _charging(folder: Path, batteries: list[Supply], mains: list[Supply]) -> ConditionReading:
    # With a weak charger online the battery may still drain: that does not count as charging.
    for battery in batteries:
        if battery.status == "Discharging":
            return ConditionReading(Answer.NO, f"{folder}/{battery.name}", "not charging")
    source = f"{folder}/{batteries[0].name}"
    if any(b.status == "Charging" for b in batteries) or any(s.online for s in mains):
        # "Not charging", "Full" or an empty status while a charger is online: a charge limit has been reached.
        return ConditionReading(Answer.YES, source, "charging")
    plugs_known = any(s.online is not None for s in mains)
    if any(b.status == "Not charging" for b in batteries) or plugs_known:
        return ConditionReading(Answer.NO, source, "not charging")
    if any(b.status == "Full" for b in batteries):
        return ConditionReading(Answer.YES, source, "charging")
    return ConditionReading(Answer.UNKNOWN, source, "the battery does not say whether it is charging")


def _level(folder: Path, batteries: list[Supply], minimum: float) -> ConditionReading:
    # Two batteries count as one store of energy; a bogus 0 % is ignored.
    levels = [b.level for b in batteries if b.level]
    level = sum(levels) / len(levels) if levels else None
    return battery_reading(level, minimum, f"{folder}/{batteries[0].name}")
