"""The battery of an Android phone, asked by Termux on the phone itself: ``termux-battery-status``.

That program needs the app Termux:API and hangs where it is missing or not allowed in the background, and takes seconds
on some phones: it is asked in the background, one question at a time, and killed with all its children in the end.
Whether somebody uses the phone and what its network costs Termux does not tell: the configuration must.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, battery_reading, heat_reading
from edge_agent.shell.probes.background import Background
from edge_agent.shell.probes.command import Run, run

COMMAND = ("termux-battery-status",)
EVERY_S = 30.0
TIMEOUT_S = 10.0


class BatteryStatus(msgspec.Struct, frozen=True):
    """What the program prints, as far as we need it."""

    percentage: Annotated[float, Meta(ge=0, le=100)]
    plugged: str
    status: str
    temperature: float | None = None


class Termux:
    """A probe.

    Args:
        minimum_battery: share of a full battery.
        maximum_battery_c: of the battery.
        run: runs programs.
        now_s: seconds on a clock that does not jump.
    """

    def __init__(
        self,
        minimum_battery: float,
        maximum_battery_c: float,
        run: Run = run,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._minimum_battery = minimum_battery
        self._maximum_battery_c = maximum_battery_c
        decoder = msgspec.json.Decoder(BatteryStatus)
        self.question = Background(lambda: decoder.decode(run(COMMAND, TIMEOUT_S)), EVERY_S, now_s)

    def __call__(self) -> Readings:
        """Look now."""
        said, source = self.question.latest(), COMMAND[0]
        if said.answer is None:
            unknown = ConditionReading(Answer.UNKNOWN, source, said.reason, said.age_s)
            return dict.fromkeys((Condition.CHARGING, Condition.BATTERY_HIGH, Condition.COOL), unknown)
        battery = said.answer
        return {
            Condition.CHARGING: charging_reading(battery.plugged != "UNPLUGGED", battery.status, source, said.age_s),
            Condition.BATTERY_HIGH: aged(
                battery_reading(battery.percentage / 100 or None, self._minimum_battery, source), said.age_s
            ),
            Condition.COOL: aged(heat_reading(battery.temperature, self._maximum_battery_c, source), said.age_s),
        }


def charging_reading(plugged: bool, status: str, source: str, age_s: float) -> ConditionReading:
    """Does an Android phone charge?

    >>> charging_reading(True, "NOT_CHARGING", "test", 0.0).value
    <Answer.YES: 'yes'>
    >>> charging_reading(True, "DISCHARGING", "test", 0.0).value
    <Answer.NO: 'no'>

    Args:
        plugged: into anything.
        status: ``CHARGING``, ``DISCHARGING``, ``NOT_CHARGING``, ``FULL`` or ``UNKNOWN``.
        source: who said so.
        age_s: seconds since then.
    """
    # Plugged in and discharging is a charger that is too weak; plugged in and not charging is a charge limit.
    if plugged and status != "DISCHARGING":
        return ConditionReading(Answer.YES, source, "charging", age_s)
    return ConditionReading(Answer.NO, source, "not charging", age_s)


def aged(reading: ConditionReading, age_s: float) -> ConditionReading:
    """The reading, so many seconds later."""
    return ConditionReading(reading.value, reading.source, reading.reason, age_s)
