"""The work done at each boot of the device, above all at the first one."""

from __future__ import annotations

from collections.abc import Callable

from nightjar.firmware_scripts.device.enrolling import take_off_card
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.releases import DeviceStarted, Empty, Offered, Trying
from nightjar.firmware_scripts.device.switch import Switch

AGAIN_S = (15.0, 30.0, 60.0, 120.0, 300.0)
"""Pauses in seconds before the first release is tried again; the last one repeats until the network is up."""


def boot(
    places: Places,
    switch: Switch,
    offer: Callable[[], Offered],
    enrol: Callable[[], bool],
    sleep: Callable[[float], None],
) -> None:
    """Repair interrupted work, then install, enrol and try a release as needed; return when all of it is done.

    ``offer`` checks the bundle on the card. ``enrol`` exchanges a claim for a new identity; it returns whether nothing
    is left to do.

    Raises:
        NightjarError: the bundle on the card cannot be used.
        OSError: the disk is full or broken.
    """
    take_off_card(places)
    record, _ = switch.take(DeviceStarted())
    if isinstance(record.state, Empty):
        record, _ = switch.take(offer())
    tries = 0
    # A claim beside a settled release means that the card was customised again.
    while isinstance(record.state, Trying) or (places.claim.exists() and not enrol()):
        sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
        tries += 1
        take_off_card(places)  # there may be a new claim on the card
        record, _ = switch.take(DeviceStarted())
