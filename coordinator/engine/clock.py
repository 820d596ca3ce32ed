"""The wall clock."""

from __future__ import annotations

import time


class WallClock:
    """Deadlines are wall-clock times, because they must mean the same after a restart."""

    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()  # noqa: TID251 - this is the adapter
