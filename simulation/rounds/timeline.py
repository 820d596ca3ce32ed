"""Virtual time: it stands still while something happens, and then jumps to the next thing that will happen.

A heap of calls. Calls for the same moment run in the order in which they were planned, so a run depends on its seed and
on nothing else. There is no cancelling: a planned call checks itself whether it is still wanted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Call = Callable[[], None]


class Timeline:
    """The clock and the calendar of a simulation.

    Attributes:
        now_s: seconds since the simulation began.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._planned: list[tuple[float, int, Call]] = []
        self._count = 0

    def at(self, when_s: float, call: Call) -> None:
        """Plan a call; one that is due in the past runs next."""
        self._count += 1
        heapq.heappush(self._planned, (max(when_s, self.now_s), self._count, call))

    def after(self, delay_s: float, call: Call) -> None:
        """Plan a call for so many seconds from now."""
        self.at(self.now_s + delay_s, call)

    def run(self, over: Callable[[], bool], limit_s: float) -> bool:
        """Let things happen.

        >>> timeline, seen = Timeline(), []
        >>> timeline.at(5.0, lambda: seen.append(timeline.now_s))
        >>> timeline.run(lambda: bool(seen), limit_s=10.0), seen
        (True, [5.0])

        Args:
            over: asked after each call; ends the run.
            limit_s: longest virtual time.

        Returns:
            Whether ``over`` ended it, and not the limit or the end of the plans.
        """
        planned = self._planned
        while planned and planned[0][0] <= limit_s:
            self.now_s, _, call = heapq.heappop(planned)
            call()
            if over():
                return True
        return False
