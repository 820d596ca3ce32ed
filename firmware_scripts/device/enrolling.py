"""Exchanges a claim for the device's identity, once. The claim is moved off the card at once and wiped after use.

The agent enrols (``nightjar-agent enrol``), as its own user and in its own sandbox. This module starts it, and
overwrites and removes the claim once it is used up: status 0, after the first connection with the device's own
certificate. Status 2 means that the claim will never work; 3 that the network, coordinator or person is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.systemd import Systemd
from nightjar.host.files import overwrite_file, replace_file, sync_folder

ENROL = "nightjar-enrol.service"
_REFUSED = 2


def enrol(claim: Path, systemd: Systemd, tell: Callable[[str], None]) -> bool:
    """Enrol if there is a claim, already moved off the card; return whether nothing is left to do."""
    if not claim.exists():
        return True
    tell("enrolling with the claim that the card brought")
    status = systemd.work(ENROL)
    if status == 0:
        wipe(claim)
        tell("enrolled; the claim is wiped")
        return True
    why = systemd.last_words(ENROL)
    if status == _REFUSED:
        tell(f"the claim was refused; make a new one and put it on the card: {why}")
    else:
        tell(f"not enrolled yet, and tried again later: {why}")
    return False


def take_off_card(places: Places) -> None:
    """Move a claim from the card, which every user of the device can read, to a file that only root can read.

    Raises:
        OSError: the claim cannot be moved.
    """
    if places.claim_on_card.is_file():  # a damaged card has anything there
        data = places.claim_on_card.read_bytes()
        if data.strip():  # blank if power was cut while it was wiped
            places.kept.mkdir(parents=True, exist_ok=True)
            replace_file(places.claim, data)
        wipe(places.claim_on_card)


def wipe(path: Path) -> None:
    """Overwrite a file, then remove it. Flash memory may keep old copies, so the coordinator invalidates the claim too.

    Raises:
        OSError: the file cannot be overwritten or removed.
    """
    overwrite_file(path, b"\n" * path.stat().st_size)
    path.unlink()
    sync_folder(path.parent)
