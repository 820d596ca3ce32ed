"""Stores the record of releases as a JSON file, replaced atomically. A damaged one is rebuilt from the disk's state."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.releases import Empty, Record, Settled, State, Trying, Unpacking
from nightjar.host.files import READABLE, replace_file
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.release_version import numbers

FORMAT = 1


class RecordFile:
    """Loads and stores the record of a device."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def load(self) -> Record[State]:
        """Load the record, or rebuild it from the disk if it is unreadable: one lost file must not cost the device."""
        try:
            return decode(self._places.record.read_bytes())
        except (OSError, RemoteProtocolError):
            link = self._places.current
            present = link.readlink().name if link.is_symlink() and link.is_dir() else None
            return Record(Empty() if present is None else Settled(present))

    def save(self, record: Record[State]) -> None:
        """Store the record.

        Raises:
            OSError: the record cannot be stored.
        """
        self._places.kept.mkdir(parents=True, exist_ok=True)
        replace_file(self._places.record, encode(record), READABLE)


def encode(record: Record[State]) -> bytes:
    """Encode a record as JSON.

    >>> decode(encode(Record(Trying("0.2.0", "0.1.0", 2)))).state
    Trying(version='0.2.0', previous='0.1.0', starts=2)
    """
    fields: dict[str, object]
    match record.state:
        case Empty():
            fields = {"state": "empty"}
        case Unpacking(version, previous):
            fields = {"state": "unpacking", "version": version, "previous": previous}
        case Trying(version, previous, starts):
            fields = {"state": "trying", "version": version, "previous": previous, "starts": starts}
        case Settled(version, previous):
            fields = {"state": "settled", "version": version, "previous": previous}
    return (json.dumps({"format": FORMAT, **fields, "refused": dict(record.refused)}, indent=1) + "\n").encode()


def decode(data: bytes) -> Record[State]:
    """Decode a record from JSON.

    Raises:
        RemoteProtocolError: the data is not a valid record.
    """
    try:
        fields = json.loads(data)
        refused = {str(version): str(reason) for version, reason in fields["refused"].items()}
        return Record(_state(fields), MappingProxyType(refused))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"this is no record of releases: {error!r:.100}"
        raise RemoteProtocolError(msg, code="record") from error


def _state(fields: dict[str, Any]) -> State:
    if fields["state"] == "empty":
        return Empty()
    version, previous = str(fields["version"]), fields.get("previous")
    for release in (version, previous):
        if release is not None:
            numbers(release)
    match fields["state"]:
        case "unpacking":
            return Unpacking(version, previous)
        case "trying":
            return Trying(version, previous, int(fields["starts"]))
        case "settled":
            return Settled(version, previous)
        case other:
            raise ValueError(other)
