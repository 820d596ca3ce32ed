"""An emulated phone: plays a script on a virtual clock that may run faster than real time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from edge_agent.emulator.day import DAY_S, HOUR_S, Day, PhoneState, state_at

Script = Callable[[float], PhoneState]
"""Seconds of virtual time since the first midnight -> state of the phone."""


@dataclass(frozen=True, slots=True)
class PlayedPhone:
    """A phone that follows a script.

    Attributes:
        script: the phone's script.
        speed: virtual seconds per real second.
        start_hour: hour of the script at ``started_s``.
        started_s: when this phone was first started, so that a restart resumes its day.
        now_s: the clock that ``started_s`` was read from.
    """

    script: Script
    speed: float
    start_hour: float
    started_s: float
    now_s: Callable[[], float]

    def state(self) -> PhoneState:
        """The state of the phone now."""
        return self.script(self._virtual_s())

    def minute(self) -> int:
        """The minute of the phone's virtual day."""
        return int(self._virtual_s() % DAY_S // 60)

    def _virtual_s(self) -> float:
        # A wall clock that was set back must not lead to a time before the first midnight.
        return self.start_hour * HOUR_S + max(0.0, self.now_s() - self.started_s) * self.speed


def scripted(day: Day, seed: int) -> Script:
    """A script that repeats a day.

    Args:
        day: the day to repeat.
        seed: seed of this phone; phones with other seeds act at other minutes.
    """
    return partial(state_at, day, seed)
