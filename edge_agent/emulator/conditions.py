"""The conditions of an emulated phone: its scripted day, on a clock that runs faster than ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.core.eligibility import Answer, Condition, Reading, Readings, battery_reading
from edge_agent.emulator.day import DAY_S, HOUR_S, Day, PhoneState, state_at

SOURCE = "emulated day"


@dataclass(frozen=True, slots=True)
class EmulatedConditions:
    """A probe that knows what its script says.

    Attributes:
        day: the script.
        seed: of this phone.
        speed: virtual seconds in a real one.
        start_hour: hour of the script at ``started_s``.
        started_s: when this phone was first started, so that a restart goes on with its day.
        minimum_battery: share of a full battery below which it does not train.
        now_s: the clock of ``started_s``.
    """

    day: Day
    seed: int
    speed: float
    start_hour: float
    started_s: float
    minimum_battery: float
    now_s: Callable[[], float]

    def __call__(self) -> Readings:
        """Look now."""
        phone = self.phone()
        return {
            Condition.CHARGING: _reading(phone.charging, "charging", "unplugged"),
            Condition.IDLE: _reading(not phone.in_use, "idle", "in use"),
            Condition.UNMETERED: _reading(phone.wifi, "on Wi-Fi", "not on Wi-Fi"),
            Condition.BATTERY_HIGH: battery_reading(phone.battery, self.minimum_battery, SOURCE),
        }

    def phone(self) -> PhoneState:
        """The phone at this moment of its day."""
        return state_at(self.day, self.seed, self._virtual_s())

    def minute(self) -> int:
        """Of its day."""
        return int(self._virtual_s() % DAY_S // 60)

    def _virtual_s(self) -> float:
        # A wall clock that was set back must not reach before the first midnight.
        return self.start_hour * HOUR_S + max(0.0, self.now_s() - self.started_s) * self.speed


def _reading(holds: bool, yes: str, no: str) -> Reading:
    return Reading(Answer.YES, SOURCE, yes) if holds else Reading(Answer.NO, SOURCE, no)
