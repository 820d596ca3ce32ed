"""The coordinator's clocks: the machine's own for commands, and a steady one for the service.

The steady clock goes on from the newest trusted time (:mod:`nightjar.host.trusted_time`) while what the machine says is
not believed: no deadline passes because somebody mistyped a year, and nothing is signed for the future. It is then at
most behind, by how long the service was stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from nightjar.host.system_clock import TrustedClock, read_clock
from nightjar.host.trusted_time import ClockReading, in_utc
from nightjar.wire.errors import UnavailableError

REMEDY = (
    "set the clock of this machine, or, if it is right, start the service once with --trust-clock; until then nothing "
    "is signed, renewed, deleted or expired by it"
)

_log = structlog.get_logger("coordinator")


class WallClock:
    """The system clock. Deadlines are wall-clock times because they must stay valid across a restart."""

    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()  # noqa: TID251 - this is the adapter


class SteadyClock:
    """The machine's time while it is trusted; else the newest trusted time, and how long ago that was. Thread-safe.

    Args:
        newest_s: the newest trusted time that was made durable; None at the first start, which takes the machine's.
        save: makes a trusted time durable. It is called only by :meth:`keep`, because whoever asks for the time may
            hold a transaction.
        trust: take the machine's time as right now, because a person says so.
        read: reads the clocks.

    Raises:
        UnavailableError: the time could not be made durable.
    """

    def __init__(
        self,
        newest_s: float | None,
        save: Callable[[float], None],
        *,
        trust: bool = False,
        read: Callable[[], ClockReading] = read_clock,
    ) -> None:
        self._read, self._save = read, save
        self._lock = threading.RLock()
        self._reading = read()
        self._unsaved_s: float | None = None
        self._clock = TrustedClock(newest_s, self._hold, lambda: self._reading)
        self._distrusted = ""
        start_s = self._reading.wall_s if newest_s is None else newest_s
        self._anchor = (start_s, self._reading.running_s)
        if newest_s is None or trust:
            taken_s = self._clock.take()
            _log.info("clock_taken", time=in_utc(taken_s), because="told to" if newest_s is not None else "first start")
            self._anchor = (taken_s, self._reading.running_s)
            self.keep()

    def now_s(self) -> float:
        """Seconds since 1970."""
        with self._lock:
            return self._look()[0]

    def trusted_s(self) -> float | None:
        """Seconds since 1970; None while the machine's clock is not trusted."""
        with self._lock:
            return self._look()[1]

    def distrust(self) -> str:
        """Why the machine's clock is not trusted, and what to do; empty if it is."""
        with self._lock:
            self._look()
            why = self._clock.distrust()
            return f"{why}; {REMEDY}" if why else ""

    def keep(self) -> None:
        """Make the newest trusted time durable, if it is not.

        Raises:
            UnavailableError: it could not be done now; the next call tries again.
        """
        with self._lock:
            self._look()
            unsaved_s, self._unsaved_s = self._unsaved_s, None
        if unsaved_s is None:
            return
        try:
            self._save(unsaved_s)
        except UnavailableError:
            with self._lock:
                self._unsaved_s = unsaved_s if self._unsaved_s is None else self._unsaved_s
            raise

    def _look(self) -> tuple[float, float | None]:
        """The steady time, and the machine's if it is trusted."""
        self._reading = self._read()
        trusted_s, running_s = self._clock.now_s(), self._reading.running_s
        why = "" if trusted_s is not None else self._clock.distrust()
        if bool(why) != bool(self._distrusted):
            if why:
                _log.warning("clock_not_trusted", reason=why, remedy=REMEDY)
            else:
                _log.info("clock_trusted", time=in_utc(self._reading.wall_s))
        self._distrusted = why
        if trusted_s is not None:
            self._anchor = (trusted_s, running_s)
            return trusted_s, trusted_s
        return self._anchor[0] + running_s - self._anchor[1], None

    def _hold(self, trusted_s: float) -> None:
        self._unsaved_s = trusted_s
