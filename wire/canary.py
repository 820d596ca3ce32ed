"""Which devices try a new version first: both ends find the same answer without asking each other.

The share is drawn anew for each version, because the manifest's hash is part of the draw: it is not always the same
people who meet a bad version first.
"""

from __future__ import annotations

from wire.identifiers import DeviceId, Sha256
from wire.shares import share_of


def is_canary(device: DeviceId, manifest: Sha256, share: float) -> bool:
    """Whether a device belongs to the canaries of a version.

    Args:
        device: which.
        manifest: hash of the version's manifest, in hex.
        share: of the devices, 0 to 1.

    >>> is_canary(DeviceId("phone-01"), Sha256("0" * 64), 1.0), is_canary(DeviceId("phone-01"), Sha256("0" * 64), 0.0)
    (True, False)
    """
    return share_of(manifest, device) < share
