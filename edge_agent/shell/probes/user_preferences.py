"""Probe for the user's settings: whether learning is paused, and the quiet hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, quiet_reading, yes_or_no
from nightjar.wire.errors import UnavailableError

EARLIEST_CLOCK_S = 1_672_531_200.0
"""Start of 2023: a clock that reads less was never set."""


def minute_of_day(wall_s: float) -> int | None:
    """Minutes since midnight in the device's time zone; None if its clock was never set."""
    if wall_s < EARLIEST_CLOCK_S:
        return None
    local = time.localtime(wall_s)
    return 60 * local.tm_hour + local.tm_min


@dataclass(frozen=True, slots=True)
class UserPreferences:
    """Probe for the user's settings.

    Attributes:
        paused: whether the user paused learning; raises UnavailableError if that cannot be determined.
        minute: minutes since midnight; None if not known.
    """

    paused: Callable[[], bool]
    quiet_hours: Sequence[str]
    minute: Callable[[], int | None]
    source: str = "clock"

    def __call__(self) -> Readings:
        """Take a reading now."""
        try:
            wanted = yes_or_no(not self.paused(), "settings", "learning is on", "learning is paused")
        except UnavailableError as error:
            wanted = ConditionReading(Answer.UNKNOWN, "settings", str(error)[:100])
        hours = quiet_reading(self.quiet_hours, self.minute(), self.source)
        return {Condition.WANTED: wanted, Condition.OUTSIDE_QUIET_HOURS: hours}
