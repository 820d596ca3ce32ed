"""What happens at each start of the device, and most of all at the first one."""

from __future__ import annotations

from collections.abc import Callable

from firmware_scripts.device.enrolling import take_off_card
from firmware_scripts.device.health import AGENT
from firmware_scripts.device.places import Places
from firmware_scripts.device.releases import DeviceStarted, Empty, Offered, Trying
from firmware_scripts.device.switch import Switch
from firmware_scripts.device.system_actions import DeviceActions

AGAIN_S = (15.0, 30.0, 60.0, 120.0, 300.0)
"""Pauses before the first release is tried again; the last one for ever: the network comes when it comes."""

Offer = Callable[[], Offered]


def boot(
    places: Places, switch: Switch, offer: Offer, enrol: Callable[[], bool], sleep: Callable[[float], None]
) -> None:
    """Put right what was cut off; install, enrol and try where that is still to be done; return once all of it is.

    Args:
        places: of the device.
        switch: of its releases.
        offer: checks the bundle on the card.
        enrol: trades a claim for another identity; whether nothing is left to be done.
        sleep: waits.

    Raises:
        NightjarError: the bundle on the card is of no use.
        OSError: the disk is full, or broken.
    """
    take_off_card(places)
    record, _ = switch.take(DeviceStarted())
    if isinstance(record.state, Empty):
        record, _ = switch.take(offer())
    tries = 0
    # A claim beside a release that counts: the card was customised again.
    while isinstance(record.state, Trying) or (places.claim.exists() and not enrol()):
        sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
        tries += 1
        take_off_card(places)  # somebody may have brought another one
        record, _ = switch.take(DeviceStarted())


def enrol_again(actions: DeviceActions) -> bool:
    """Trade a claim beside a release that counts for another identity, which the agent takes up at its start."""
    if not actions.enrolling.enrol():
        return False
    actions.systemd.restart(AGENT)
    return True
