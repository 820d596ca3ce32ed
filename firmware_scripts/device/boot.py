"""The work done at each boot of the device, above all at the first one."""

from __future__ import annotations

from collections.abc import Callable

from firmware_scripts.device.enrolling import take_off_card
from firmware_scripts.device.health import AGENT
from firmware_scripts.device.places import Places
from firmware_scripts.device.releases import DeviceStarted, Empty, Offered, Trying
from firmware_scripts.device.switch import Switch
from firmware_scripts.device.system_actions import DeviceActions

AGAIN_S = (15.0, 30.0, 60.0, 120.0, 300.0)
"""Pauses in seconds before the first release is tried again; the last one repeats until the network is up."""

Offer = Callable[[], Offered]


def boot(
    places: Places, switch: Switch, offer: Offer, enrol: Callable[[], bool], sleep: Callable[[float], None]
) -> None:
    """Repair interrupted work, then install, enrol and try a release as needed; return when all of it is done.

    Args:
        places: the device's paths.
        switch: drives the device's releases.
        offer: checks the bundle on the card.
        enrol: exchanges a claim for a new identity; returns whether nothing is left to do.
        sleep: waits for a number of seconds.

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


def enrol_again(actions: DeviceActions) -> bool:
    """Exchange a claim for a new identity on a device with a settled release, and restart the agent to use it."""
    if not actions.enrolling.enrol():
        return False
    actions.systemd.restart(AGENT)
    return True
