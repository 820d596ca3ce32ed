"""The device's clocks. The only place in the agent that asks what time it is."""

from __future__ import annotations

import time
from pathlib import Path

SYNCHRONISED = Path("/run/systemd/timesync/synchronized")
"""Made by systemd when the clock was set from a time server since the machine started."""


class SystemClock:
    """Implements :class:`edge_agent.ports.Clock`."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since 1970 UTC, as far as the device knows."""
        return time.time()  # noqa: TID251 - this is the adapter

    def synchronised_s(self) -> float | None:
        """The same, if the clock was set from a time server; else None."""
        return self.wall_s() if SYNCHRONISED.exists() else None
