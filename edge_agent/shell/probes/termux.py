"""Probe for the battery of an Android phone, run in Termux on the phone itself: ``termux-battery-status``.

This program needs the app Termux:API. It hangs if the app is missing or not allowed to run in the background, and takes
seconds on some phones. It therefore runs in the background, one call at a time, and is killed with all its children
after a timeout. Termux does not report whether the phone is in use or its network is metered: the configuration must.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.edge_agent.core.eligibility import (
    Answer,
    Condition,
    ConditionReading,
    Readings,
    battery_reading,
    heat_reading,
    yes_or_no,
)
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.command import Run, run

COMMAND = ("termux-battery-status",)
EVERY_S = 30.0
TIMEOUT_S = 10.0


class BatteryStatus(msgspec.Struct, frozen=True):
    """The fields of the program's output that we need."""

    percentage: Annotated[float, Meta(ge=0, le=100)]
    plugged: str
    status: str
    temperature: float | None = None


class Termux:
    """Probe for charging, battery level and battery temperature."""

    def __init__(
        self,
        minimum_battery: float,
        maximum_battery_c: float,
        run: Run = run,
    ) -> None:
        self._minimum_battery = minimum_battery
        self._maximum_battery_c = maximum_battery_c
        decoder = msgspec.json.Decoder(BatteryStatus)
        self.question = Background(lambda: decoder.decode(run(COMMAND, TIMEOUT_S)), EVERY_S)

    def __call__(self) -> Readings:
        """Take a reading now."""
        latest, source = self.question.latest(), COMMAND[0]
        if latest.answer is None:
            unknown = ConditionReading(Answer.UNKNOWN, source, latest.reason, latest.age_s)
            return dict.fromkeys((Condition.CHARGING, Condition.BATTERY_HIGH, Condition.COOL), unknown)
        battery = latest.answer
        readings = {
            Condition.CHARGING: charging_reading(battery.plugged != "UNPLUGGED", battery.status, source),
            Condition.BATTERY_HIGH: battery_reading(battery.percentage / 100 or None, self._minimum_battery, source),
            Condition.COOL: heat_reading(battery.temperature, self._maximum_battery_c, source),
        }
        return {condition: replace(reading, age_s=latest.age_s) for condition, reading in readings.items()}


def charging_reading(plugged: bool, status: str, source: str) -> ConditionReading:
    """Whether an Android phone is charging.

    >>> charging_reading(True, "NOT_CHARGING", "test").value
    <Answer.YES: 'yes'>
    >>> charging_reading(True, "DISCHARGING", "test").value
    <Answer.NO: 'no'>

    ``status`` is ``CHARGING``, ``DISCHARGING``, ``NOT_CHARGING``, ``FULL`` or ``UNKNOWN``.
    """
    # Plugged in and discharging means too weak a charger; plugged in and not charging means a charge limit.
    return yes_or_no(plugged and status != "DISCHARGING", source, "charging", "not charging")
