"""Reads the machine's clocks, and keeps the newest trusted time (:mod:`nightjar.host.trusted_time`).

Source: adjtimex(2); systemd-timesyncd.service(8) for the file that says the same where a filter forbids the call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nightjar.host.trusted_time import ClockReading, TimeMark, distrust, mark_due, next_mark
from nightjar.wire.errors import UnavailableError

SYNCHRONISED = Path("/run/systemd/timesync/synchronized")
"""Created by systemd once the clock has been set from a time server since boot."""
_UNSYNCHRONISED = 0x0040
_MOST_APART_S = 5.0


class _Timex(ctypes.Structure):
    """The beginning of ``struct timex``, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time_s", ctypes.c_long),
        ("rest", ctypes.c_char * 256),
    )


def read_clock() -> ClockReading:
    """The machine's clocks now; the running one also counts while the machine sleeps."""
    wall_s = time.time()  # noqa: TID251 - this is the adapter
    return ClockReading(wall_s, time.clock_gettime(time.CLOCK_BOOTTIME), _synchronised(wall_s))


def _synchronised(wall_s: float) -> bool:
    """Whether the kernel says that its clock is synchronised, and this process has the kernel's time."""
    answer, adjtimex = _Timex(), _adjtimex()
    if adjtimex is None or adjtimex(ctypes.byref(answer)) < 0:  # forbidden by a filter of system calls
        return SYNCHRONISED.exists()
    # A process may be given another time than its kernel's, by a preloaded library, say.
    return not answer.status & _UNSYNCHRONISED and abs(answer.time_s - wall_s) <= _MOST_APART_S


@functools.cache
def _adjtimex() -> Callable[..., int] | None:
    """The C library's function, looked up once: the time is asked for with each message; None if there is none."""
    try:
        found: Callable[..., int] = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    return found


class TrustedClock:
    """A clock that tells the time only while it is trusted. Thread-safe.

    Args:
        newest_s: the newest trusted time that was made durable, seconds since 1970 UTC; None if there is none.
        keep: makes a time durable; raises UnavailableError if it cannot. Another try comes with the next question.
        read: reads the clocks.
    """

    def __init__(
        self,
        newest_s: float | None,
        keep: Callable[[float], None],
        read: Callable[[], ClockReading] = read_clock,
    ) -> None:
        self._mark = None if newest_s is None else TimeMark(newest_s)
        self._keep, self._read = keep, read
        self._lock = threading.Lock()

    def now_s(self) -> float | None:
        """Seconds since 1970 UTC; None while the clock is not trusted."""
        with self._lock:
            reading = self._read()
            if distrust(self._mark, reading):
                return None
            if mark_due(self._mark, reading):
                with contextlib.suppress(UnavailableError):
                    self._keep(reading.wall_s)
                    self._mark = next_mark(self._mark, reading)
            return reading.wall_s

    def distrust(self) -> str:
        """Why the clock is not trusted, in words; empty if it is."""
        with self._lock:
            return distrust(self._mark, self._read())

    def take(self) -> float:
        """Take the machine's time as right, because a person or another clock says so; returns it.

        Raises:
            UnavailableError: it could not be made durable.
        """
        with self._lock:
            reading = self._read()
            self._keep(reading.wall_s)
            self._mark = TimeMark(reading.wall_s, reading.running_s)
            return reading.wall_s
