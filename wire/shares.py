"""Deterministic division of a population: into the variants of an experiment, or into a canary group and the rest.

The result depends on two names only, so it is the same on both sides and never changes: a device stays in its share
whatever is added later, and two divisions are independent of each other. It is not secret: anybody who knows a device's
name can compute its place.
"""

from __future__ import annotations

import hashlib

from nightjar.wire.identifiers import DeviceId, Sha256

_BYTES, _BITS = 8, 53
"""Number of leading bytes of the hash, read big-endian; and how many of their bits are used: those a float can hold."""


def share_of(division: str, device: DeviceId) -> float:
    """The place of a device in a division, whose name has no NUL: uniform in [0, 1) over devices.

    >>> round(share_of("canary", DeviceId("phone-01")), 6)
    0.906632
    """
    return place_in(division, device) / (1 << _BITS)


def place_in(division: str, device: DeviceId) -> int:
    """The place of a device in a division, as an integer of 53 bits: with near certainty no other device has it."""
    digest = hashlib.sha256(f"{division}\0{device}".encode()).digest()
    return int.from_bytes(digest[:_BYTES], "big") >> 8 * _BYTES - _BITS


def is_canary(device: DeviceId, manifest: Sha256, share: float) -> bool:
    """Whether a device is among the share that tries a version before the others.

    The division is named by the version's manifest, so that a bad version does not always hit the same people first.

    >>> is_canary(DeviceId("phone-01"), Sha256("0" * 64), 1.0), is_canary(DeviceId("phone-01"), Sha256("0" * 64), 0.0)
    (True, False)
    """
    return share_of(manifest, device) < share
