"""Where a device falls when a population is divided: into the variants of an experiment, or into a first few.

The same on both sides and for ever: it follows from two names and nothing else, so a device that was in a share stays
in it whatever else is added, and the shares of two divisions are independent of each other. Not a secret: whoever
knows a device's name can reckon where it falls.
"""

from __future__ import annotations

import hashlib

from wire.identifiers import DeviceId

_BYTES, _BITS = 8, 53
"""Of the hash, read as a big-endian number: its first bytes, and of these as many bits as a float holds exactly."""


def share_of(division: str, device: DeviceId) -> float:
    """Where a device falls in a division: uniform in [0, 1) over devices.

    >>> round(share_of("canary", DeviceId("phone-01")), 6)
    0.906632

    Args:
        division: its name, without NUL.
        device: whose place.
    """
    digest = hashlib.sha256(f"{division}\0{device}".encode()).digest()
    return (int.from_bytes(digest[:_BYTES], "big") >> 8 * _BYTES - _BITS) / (1 << _BITS)
