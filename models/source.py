"""What a device has to learn from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NO_EXAMPLES = "no-examples"
"""The problem of a folder without files of the task type."""


@dataclass(frozen=True, slots=True)
class Source:
    """The examples on a device: typed messages, and the folder of others (``store.examples``), if any."""

    texts: Sequence[str] = ()
    folder: str | None = None
