"""What the device's own record says about releases of the agent that were taken back (docs/bundles.md).

The record is written by ``nightjar-device``, outside of every release, and names here by an environment variable of
the unit. The agent only carries its contents to the coordinator: nobody looks at a card that seems to be fine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

VARIABLE = "NIGHTJAR_RELEASES"
_MOST_BYTES = 1 << 20
_MOST_CHARACTERS = 400


class _Record(msgspec.Struct, frozen=True):
    refused: dict[str, str] = {}


def rollback_reason(environment: Mapping[str, str]) -> str:
    """The newest release that was taken back on this device, with its reason; empty if there is none.

    >>> rollback_reason({})
    ''
    """
    path = environment.get(VARIABLE)
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            refused = msgspec.json.decode(file.read(_MOST_BYTES), type=_Record).refused
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        # Not there yet, or not readable: a record of releases is no reason not to train.
        return ""
    if not refused:
        return ""
    newest = max(refused, key=_order)
    return f"{newest}: {refused[newest]}"[:_MOST_CHARACTERS].replace("\0", "?")


def _order(version: str) -> tuple[tuple[int, ...], str]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (), version
