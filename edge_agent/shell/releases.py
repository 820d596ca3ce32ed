"""Reads the device's record of agent releases that were rolled back (docs/bundles.md).

``nightjar-device`` writes the record, outside of every release; an environment variable of the systemd unit gives its
path. The agent only passes it on to the coordinator: nobody inspects the card of a device that seems to be fine.
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
    """The newest release that was rolled back on this device, with the reason; empty if there is none.

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
        # Missing or unreadable: a device without a release record still trains.
        return ""
    if not refused:
        return ""
    newest = max(refused, key=_order)
    return f"{newest}: {refused[newest]}"[:_MOST_CHARACTERS].replace("\0", "?")


def _order(version: str) -> tuple[tuple[int, ...], str]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (), version
