"""The conditions of an emulated phone: its scripted day, on a clock that runs faster than ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.core.eligibility import Answer, Condition, Reading, Readings, battery_reading
from edge_agent.emulator.day import HOUR_S, Day, state_at

SOURCE = "emulated day"


@dataclass(frozen=True, slots=True)
class EmulatedConditions:
    """Implements :class:`edge_agent.ports.Conditions`.

    Attributes:
        day: the script.
        seed: of this phone.
        speed: virtual seconds in a real one.
        start_hour: hour of the script at ``started_s``.
        started_s: when this phone was first started, so that a restart goes on with its day.
        minimum_battery: share of a full battery below which it does not train.
        now_s: the clock of ``started_s``.
        typed_s: seconds since somebody typed on the demo keyboard.
        idle_after_s: how long ago that must be.
    """

    day: Day
    seed: int
    speed: float
    start_hour: float
    started_s: float
    minimum_battery: float
    now_s: Callable[[], float]
    typed_s: Callable[[], float]
    idle_after_s: float

    def read(self) -> Readings:
        """Look now."""
        # A wall clock that was set back must not reach before the first midnight.
        passed_s = max(0.0, self.now_s() - self.started_s)
        phone = state_at(self.day, self.seed, self.start_hour * HOUR_S + passed_s * self.speed)
        typed_s = self.typed_s()
        in_use = phone.in_use or typed_s < self.idle_after_s
        return {
            Condition.CHARGING: _reading(phone.charging, "charging", "unplugged"),
            Condition.IDLE: _reading(not in_use, "idle", "in use"),
            Condition.UNMETERED: _reading(phone.wifi, "on Wi-Fi", "not on Wi-Fi"),
            Condition.BATTERY_HIGH: battery_reading(phone.battery, self.minimum_battery, SOURCE),
        }


def _reading(holds: bool, yes: str, no: str) -> Reading:
    return Reading(Answer.YES, SOURCE, yes) if holds else Reading(Answer.NO, SOURCE, no)
