"""What a device has to learn from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """The examples on a device.

    Attributes:
        texts: the typed messages.
        folder: path of the folder of other examples, ``store.examples``; None if the device has none.
    """

    texts: Sequence[str] = ()
    folder: str | None = None
