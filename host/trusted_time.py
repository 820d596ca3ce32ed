"""Decides whether what the clock says may be believed. Pure; :mod:`nightjar.host.system_clock` reads the clock.

A board without a battery starts in 1970 or where it stopped; a virtual machine resumes hours later; somebody mistypes a
year. A time is trusted if the kernel says that it is synchronised. In many containers, and on most phones, it never
does. There a time is trusted if it is not before, and at most a day after, the newest time that was itself trusted and
made durable, not counting the time that has passed since on a clock that never jumps. With any other time nothing is
signed, renewed, expired, deleted or judged. How long something takes is measured by the monotonic clock instead.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

LONGEST_STOP_S = 86_400.0
"""How much later than the newest durable time a clock may be: a night switched off, and the error of its crystal. It
bounds how far a clock that is ahead can be believed."""
MARK_EVERY_S = 3_600.0
"""How often a trusted time is made durable: a small write an hour is 0.2 MB a day on a card."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The clocks at one moment.

    Attributes:
        wall_s: seconds since 1970 UTC, which may be wrong.
        running_s: seconds on a clock that never jumps, since any fixed moment of this process.
        synchronised: whether the kernel says that its clock is synchronised.
    """

    wall_s: float
    running_s: float
    synchronised: bool


@dataclass(frozen=True, slots=True)
class TimeMark:
    """The newest trusted time that was made durable.

    Attributes:
        running_s: the reading of the clock that never jumps when it was made; None if an earlier process made it.
        jumped_s: how much further the wall clock has come than that one since this process began: many small jumps may
            not lead further than one.
    """

    wall_s: float
    running_s: float | None = None
    jumped_s: float = 0.0


def distrust(mark: TimeMark | None, reading: ClockReading) -> str:
    """Why a clock is not believed, in words; empty if it is.

    >>> distrust(TimeMark(1_000_000.0), ClockReading(1_000_060.0, 5.0, synchronised=False))
    ''
    >>> distrust(TimeMark(1_000_000.0), ClockReading(0.0, 5.0, synchronised=False))
    'the clock says 1970-01-01 00:00 UTC, which is before 1970-01-12 13:46 UTC, the newest time known to be right'
    >>> distrust(TimeMark(1_000_000.0), ClockReading(0.0, 5.0, synchronised=True))
    ''
    """
    if reading.synchronised:
        return ""
    if mark is None:
        return f"the clock says {in_utc(reading.wall_s)}, and nothing says yet whether that is right"
    if reading.wall_s < mark.wall_s:
        fault = "before"
    elif mark.jumped_s + _jump_s(mark, reading) > LONGEST_STOP_S:
        fault = "more than a day after"
    else:
        return ""
    return (
        f"the clock says {in_utc(reading.wall_s)}, which is {fault} {in_utc(mark.wall_s)}, "
        "the newest time known to be right"
    )


def mark_due(mark: TimeMark | None, reading: ClockReading) -> bool:
    """Whether the time of a reading is trusted and should be made durable.

    A synchronised clock that was set back replaces a later mark: an earlier one was not right.

    >>> mark_due(TimeMark(1_000_000.0), ClockReading(1_000_060.0, 5.0, synchronised=False))
    False
    >>> mark_due(TimeMark(1_000_000.0), ClockReading(1_003_600.0, 5.0, synchronised=False))
    True
    """
    if distrust(mark, reading):
        return False
    return mark is None or not mark.wall_s <= reading.wall_s < mark.wall_s + MARK_EVERY_S


def next_mark(mark: TimeMark | None, reading: ClockReading) -> TimeMark:
    """The mark to keep once the time of a reading was made durable."""
    counts = not (reading.synchronised or mark is None or mark.running_s is None)
    jumped_s = max(0.0, mark.jumped_s + _jump_s(mark, reading)) if counts and mark is not None else 0.0
    return TimeMark(reading.wall_s, reading.running_s, jumped_s)


def confirmed(mark: TimeMark | None, reading: ClockReading, other_s: float) -> bool:
    """Whether another clock, that of an order signed just now, says that a time is right: to within a day.

    It may not lead back behind the newest time that was known to be right.

    >>> confirmed(None, ClockReading(1_000_000.0, 5.0, synchronised=False), 1_000_100.0)
    True
    >>> confirmed(TimeMark(1_000_060.0), ClockReading(1_000_000.0, 5.0, synchronised=False), 1_000_100.0)
    False
    """
    return abs(reading.wall_s - other_s) <= LONGEST_STOP_S and (mark is None or reading.wall_s >= mark.wall_s)


def _jump_s(mark: TimeMark, reading: ClockReading) -> float:
    """How much further the wall clock has come since a mark than the clock that never jumps."""
    passed_s = 0.0 if mark.running_s is None else reading.running_s - mark.running_s
    return reading.wall_s - mark.wall_s - passed_s


def in_utc(seconds: float) -> str:
    """A time in words, to the minute; a number of seconds if no calendar has it.

    >>> in_utc(0.0), in_utc(1e30)
    ('1970-01-01 00:00 UTC', '1e+30 s after 1970')
    """
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s after 1970"
