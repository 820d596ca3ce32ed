"""The device's clocks. The only place in the agent that reads the time."""

from __future__ import annotations

import time
from pathlib import Path

SYNCHRONISED = Path("/run/systemd/timesync/synchronized")
"""Created by systemd once the clock has been set from a time server since boot."""


class SystemClock:
    """Implements :class:`nightjar.edge_agent.ports.Clock`."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since 1970 UTC according to the device's clock, which may be wrong."""
        return time.time()  # noqa: TID251 - this is the adapter

    def synchronised_s(self) -> float | None:
        """Seconds since 1970 UTC if the clock was set from a time server; else None."""
        return self.wall_s() if SYNCHRONISED.exists() else None
