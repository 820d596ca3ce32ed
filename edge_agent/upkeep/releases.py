"""When the agent looks for releases of itself: while no session needs the worker. Runs on the driver's thread.

A session stops a look, which goes on where it was once the session is over. On a slow device in one round after the
other a look might hardly begin before the next session: after :data:`MOST_STOPS` in a row the look comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from nightjar.edge_agent.core.eligibility import Condition, EligibilityVerdict, Readings, is_met
from nightjar.edge_agent.inbox import StartJob
from nightjar.edge_agent.ports import Clock, Releases
from nightjar.wire.messages import DropoutCause

MOST_STOPS = 3
"""Sessions that may stop a look before the device takes no other until it has ended; it ends within hours at most."""
FIRST = EligibilityVerdict(False, "a release of the agent is fetched first", DropoutCause.PAUSED)


class ReleaseWatch:
    """Starts and stops the looks for releases.

    ``releases`` is None where nothing could install a release.

    Attributes:
        job: number of the look in progress; 0 if there is none.
    """

    def __init__(
        self,
        releases: Releases | None,
        clock: Clock,
        start: StartJob,
        stop: Callable[[int], None],
    ) -> None:
        self._releases, self._clock, self._start, self._stop = releases, clock, start, stop
        self._free = False
        self._stops = 0
        self.job = 0

    def look_if_due(self, readings: Readings, *, working: bool) -> None:
        """Look for a release if it is time; stop a fetch that begins to cost.

        ``working``: a session needs the worker.
        """
        releases = self._releases
        if releases is None:
            return
        free = _is_free(readings)
        if self.job:
            if self._free and not free:
                self._stop_now()
        elif not working and releases.due(self._clock.monotonic_s(), free=free):
            self._free = free
            self.job = self._start(lambda should_stop: releases.look(free, should_stop))

    def comes_first(self, readings: Readings) -> bool:
        """Whether sessions have stopped a look so often that the device should take none until it has ended."""
        return self._stops >= MOST_STOPS and _is_free(readings)

    def make_way(self) -> None:
        """Stop the look in progress for a session; it is resumed as soon as it may be."""
        if self.job:
            self._stops += 1
            self._stop_now()

    def ended(self) -> None:
        """Note that the look in progress ended by itself."""
        self.job = self._stops = 0
        if self._releases is not None:
            self._releases.ended(self._clock.monotonic_s(), whole=True)

    def _stop_now(self) -> None:
        if self._releases is not None:
            self._stop(self.job)
            self.job = 0
            self._releases.ended(self._clock.monotonic_s(), whole=False)


def _is_free(readings: Readings) -> bool:
    return is_met(readings, Condition.CHARGING) and is_met(readings, Condition.UNMETERED)
