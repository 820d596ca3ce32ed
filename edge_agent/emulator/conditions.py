"""Probe for the conditions of an emulated phone, from its script. Every reading says that it is emulated."""

from __future__ import annotations

import dataclasses

from edge_agent.core.eligibility import Condition, Readings, battery_reading, yes_or_no
from edge_agent.emulator.phone import PlayedPhone

SOURCE = "emulated day"


@dataclasses.dataclass(frozen=True, slots=True)
class ScriptedConditions:
    """Probe that reads the phone's script.

    Attributes:
        phone: the emulated phone.
        minimum_battery: battery level, 0 to 1, below which it does not train.
    """

    phone: PlayedPhone
    minimum_battery: float

    def __call__(self) -> Readings:
        """Take a reading now."""
        phone = self.phone.state()
        return {
            Condition.CHARGING: yes_or_no(phone.charging, SOURCE, "charging", "unplugged"),
            Condition.IDLE: yes_or_no(not phone.in_use, SOURCE, "idle", "in use"),
            Condition.UNMETERED: yes_or_no(phone.wifi, SOURCE, "on Wi-Fi", "not on Wi-Fi"),
            Condition.BATTERY_HIGH: battery_reading(phone.battery, self.minimum_battery, SOURCE),
        }
