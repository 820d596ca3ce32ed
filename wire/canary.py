"""Selects the canary devices, which try a new version first; both ends compute the same answer independently.

The draw includes the manifest's hash, so each version has different canaries, and a bad version does not always hit the
same people first.
"""

from __future__ import annotations

from wire.identifiers import DeviceId, Sha256
from wire.shares import share_of


def is_canary(device: DeviceId, manifest: Sha256, share: float) -> bool:
    """Whether a device is a canary for a version.

    Args:
        device: name of the device.
        manifest: hash of the version's manifest, in hex.
        share: share of the devices that are canaries, 0 to 1.

    >>> is_canary(DeviceId("phone-01"), Sha256("0" * 64), 1.0), is_canary(DeviceId("phone-01"), Sha256("0" * 64), 0.0)
    (True, False)
    """
    return share_of(manifest, device) < share
