"""When a task opens rounds: the hours of the day, the pause between rounds, and when it ends. Pure; hours are UTC."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

HOUR_S, DAY_S = 3600.0, 86400.0

Hour = Annotated[int, Meta(ge=0, le=24)]


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.schedule]``: when rounds are opened.

    Attributes:
        from_hour: first hour (UTC) in which a round may open.
        to_hour: end of the span, which may pass midnight; equal to ``from_hour``: all day.
        pause_s: shortest pause between rounds.
    """

    from_hour: Hour = 0  # all day: somewhere it is night
    to_hour: Hour = 24
    pause_s: Annotated[float, Meta(ge=0, le=30 * 86400)] = 0.0  # phones are few, and waiting


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a task ends, or with ``patience`` pauses itself; a condition that is None or 0 never applies."""

    rounds: int = 0
    target_top1: float | None = None
    no_progress_rounds: int = 0
    patience: int = 0


def wait_s(schedule: Schedule, closed_at_s: float | None, now_s: float) -> float:
    """Time until the task may open a round; 0 if it may open one now.

    >>> night = Schedule(from_hour=22, to_hour=6, pause_s=600)
    >>> wait_s(night, None, 23 * 3600), wait_s(night, None, 12 * 3600), wait_s(night, 23 * 3600, 23 * 3600 + 60)
    (0.0, 36000.0, 540.0)

    ``closed_at_s`` is when its last round ended; None before the first.
    """
    rested_s = now_s
    if closed_at_s is not None and closed_at_s <= now_s:  # a clock that was set back must not prolong the pause
        rested_s = max(now_s, closed_at_s + schedule.pause_s)
    return rested_s - now_s + _until_open_s(schedule, rested_s)


def within_hours(schedule: Schedule, now_s: float) -> bool:
    """Whether the task may open rounds at this hour.

    >>> within_hours(Schedule(from_hour=22, to_hour=6), 3 * 3600.0), within_hours(Schedule(), 3 * 3600.0)
    (True, True)
    """
    return _until_open_s(schedule, now_s) == 0


def _until_open_s(schedule: Schedule, now_s: float) -> float:
    begin, end = schedule.from_hour % 24, schedule.to_hour % 24
    if begin == end:
        return 0.0
    since_s = (now_s - begin * HOUR_S) % DAY_S
    return 0.0 if since_s < (end - begin) % 24 * HOUR_S else DAY_S - since_s
