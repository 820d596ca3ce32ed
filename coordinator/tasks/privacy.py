"""What a task lets the coordinator learn from devices. Pure."""

from __future__ import annotations

import enum


class Privacy(enum.Enum):
    """``privacy`` of a task."""

    NONE = "none"
    """The coordinator reads each report: for the devices of one household, or of people who trust it."""
    SECURE_SUM = "secure-sum"
    """The coordinator learns only the sum of the reports (docs/adr/0038)."""
