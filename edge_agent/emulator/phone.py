"""An emulated phone at this moment of its life: a script, on a clock that runs faster than ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from edge_agent.emulator.day import DAY_S, HOUR_S, Day, PhoneState, state_at

Script = Callable[[float], PhoneState]
"""Seconds of virtual time since the first midnight -> the phone."""


@dataclass(frozen=True, slots=True)
class PlayedPhone:
    """A phone that follows a script.

    Attributes:
        script: its life.
        speed: virtual seconds in a real one.
        start_hour: hour of the script at ``started_s``.
        started_s: when this phone was first started, so that a restart goes on with its day.
        now_s: the clock of ``started_s``.
    """

    script: Script
    speed: float
    start_hour: float
    started_s: float
    now_s: Callable[[], float]

    def state(self) -> PhoneState:
        """The phone now."""
        return self.script(self._virtual_s())

    def minute(self) -> int:
        """Of its day."""
        return int(self._virtual_s() % DAY_S // 60)

    def _virtual_s(self) -> float:
        # A wall clock that was set back must not reach before the first midnight.
        return self.start_hour * HOUR_S + max(0.0, self.now_s() - self.started_s) * self.speed


def scripted(day: Day, seed: int) -> Script:
    """A life of days like this one.

    Args:
        day: what a day is like.
        seed: of this phone; others live at other minutes.
    """
    return partial(state_at, day, seed)
