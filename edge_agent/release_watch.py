"""When the agent looks for releases of itself: while no session needs the worker. Runs on the driver's thread."""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.core.eligibility import Answer, Condition, Readings
from edge_agent.ports import Clock, Releases


class ReleaseWatch:
    """Starts and stops the looks for releases.

    Args:
        releases: makes a look; None where nothing could install a release.
        clock: source of time.
        start: starts a job that is told when to stop, and returns its number.
        stop: stops the job of this number.

    Attributes:
        job: number of the look in progress; 0 if there is none.
    """

    def __init__(
        self,
        releases: Releases | None,
        clock: Clock,
        start: Callable[[Callable[[Callable[[], bool]], object]], int],
        stop: Callable[[int], None],
    ) -> None:
        self._releases, self._clock, self._start, self._stop = releases, clock, start, stop
        self._free = False
        self.job = 0

    def look_if_due(self, readings: Readings, *, working: bool) -> None:
        """Look for a release if it is time; stop a fetch that begins to cost.

        Args:
            readings: the conditions now.
            working: whether a session needs the worker.
        """
        releases = self._releases
        if releases is None:
            return
        free = all(
            condition in readings and readings[condition].value is Answer.YES
            for condition in (Condition.CHARGING, Condition.UNMETERED)
        )
        if self.job:
            if self._free and not free:
                self.stop()
        elif not working and releases.due(self._clock.monotonic_s(), free=free):
            self._free = free
            self.job = self._start(lambda should_stop: releases.look(free, should_stop))

    def stop(self) -> None:
        """Stop the look in progress; it is resumed as soon as it may be."""
        if self.job and self._releases is not None:
            self._stop(self.job)
            self.job = 0
            self._releases.ended(self._clock.monotonic_s(), whole=False)

    def ended(self) -> None:
        """Note that the look in progress ended by itself."""
        self.job = 0
        if self._releases is not None:
            self._releases.ended(self._clock.monotonic_s(), whole=True)
