"""Virtual time of a discrete-event simulation: the clock stands still during a call, then jumps to the next one.

Planned calls are in a heap. Calls for the same time run in the order in which they were planned, so a run depends only
on its seed. Calls cannot be cancelled; a call itself checks whether it is still wanted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Call = Callable[[], None]


class Timeline:
    """The clock and the event queue of a simulation; ``now_s`` is seconds since the simulation began."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._planned: list[tuple[float, int, Call]] = []
        self._count = 0

    def at(self, when_s: float, call: Call) -> None:
        """Plan a call at a time; a time in the past means now."""
        self._count += 1
        heapq.heappush(self._planned, (max(when_s, self.now_s), self._count, call))

    def after(self, delay_s: float, call: Call) -> None:
        """Plan a call after a delay."""
        self.at(self.now_s + delay_s, call)

    def run(self, over: Callable[[], bool], limit_s: float) -> bool:
        """Run the planned calls.

        >>> timeline, seen = Timeline(), []
        >>> timeline.at(5.0, lambda: seen.append(timeline.now_s))
        >>> timeline.run(lambda: bool(seen), limit_s=10.0), seen
        (True, [5.0])

        ``over`` is called after each call, and true ends the run, as the virtual time ``limit_s`` does. Returns whether
        ``over`` ended it.
        """
        planned = self._planned
        while planned and planned[0][0] <= limit_s:
            self.now_s, _, call = heapq.heappop(planned)
            call()
            if over():
                return True
        return False
