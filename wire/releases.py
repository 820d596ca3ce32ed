"""Agent releases over the air (docs/releases.md): file names, and the coordinator's order who takes which release.

All metadata is The Update Framework's. The offline *targets* role says which bundles are genuine; it delegates
:data:`ROLLOUT` to a key on the coordinator, which signs only the :class:`ReleaseOrder`. So whoever takes over the
coordinator chooses among genuine releases, and no device goes back to an older one than it had before.
"""

from __future__ import annotations

import msgspec

from nightjar.wire.identifiers import DeviceId
from nightjar.wire.shares import place_in, share_of

ROLLOUT = "rollout"
"""Name of the delegated role, signed by the coordinator."""
ORDER = "rollout/order"
"""The only target of that role; its custom data is the :class:`ReleaseOrder`."""
METADATA_PATH = "/tuf/"
"""Where the coordinator serves metadata; bundles are artifacts by hash."""
EVERYBODY = 1_000_000
"""All devices, in parts per million."""
MOST_METADATA_BYTES = 1 << 20
"""Largest metadata file: room for thousands of bundles."""


class ReleaseOffer(msgspec.Struct, frozen=True):
    """A release for some devices.

    Attributes:
        version: the release.
        ppm: share of the devices, in parts per million: signed JSON has no fractions.
        places: only these of them, by :func:`nightjar.wire.shares.place_in`, so that no device learns the others'
            names; empty for all of them.
    """

    version: str
    ppm: int
    places: tuple[int, ...] = ()


class ReleaseOrder(msgspec.Struct, frozen=True):
    """Which releases devices take, and which they leave again."""

    offers: tuple[ReleaseOffer, ...] = ()  # a device takes the first in whose share it is
    withdrawn: dict[str, str] = {}  # version -> why devices that have it go back to the release before


class BundleFacts(msgspec.Struct, frozen=True):
    """Custom data of a bundle in the targets role; a ``security`` release is fetched whatever the conditions are."""

    security: bool = False


def bundle_name(version: str, platform: str) -> str:
    """The file name of a bundle, which is also its name in the metadata.

    >>> bundle_name("0.1.0", "trixie-aarch64")
    'nightjar-0.1.0-trixie-aarch64.tar'
    """
    return f"nightjar-{version}-{platform}.tar"


def offered_release(order: ReleaseOrder, device: DeviceId) -> str | None:
    """The release that a device should have; None if there is none for it.

    >>> order = ReleaseOrder((ReleaseOffer("0.3.0", 0), ReleaseOffer("0.2.0", EVERYBODY)))
    >>> offered_release(order, DeviceId("phone-01"))
    '0.2.0'
    """
    return next((offer.version for offer in order.offers if _for_device(offer, device)), None)


def _for_device(offer: ReleaseOffer, device: DeviceId) -> bool:
    named = not offer.places or place_in(offer.version, device) in offer.places
    return named and EVERYBODY * share_of(offer.version, device) < offer.ppm
