"""The wall clock."""

from __future__ import annotations

import time


class WallClock:
    """The system clock. Deadlines are wall-clock times because they must stay valid across a restart."""

    def now_s(self) -> float:
        """Seconds since 1970."""
        return time.time()  # noqa: TID251 - this is the adapter
