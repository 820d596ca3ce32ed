"""A claim becomes an identity of the device, once; it is taken off the card at once, and wiped when it was used.

The agent does it (``nightjar-agent enrol``), as its own user and in its own sandbox. Here it is started, and the claim
is overwritten and removed when the agent says that it is burnt: status 0, its first connection with its own certificate
was up. Status 2 is a claim that will never do; 3 is a network, a coordinator or a person that is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from firmware_scripts.device.places import Places
from firmware_scripts.device.systemd import Systemd
from host.files import overwrite_file, replace_file, sync_folder

ENROL = "nightjar-enrol.service"
_REFUSED = 2


class Enrolling:
    """Enrols.

    Args:
        claim: the file, taken off the card.
        systemd: to start the unit.
        tell: the log and the card.
    """

    def __init__(self, claim: Path, systemd: Systemd, tell: Callable[[str], None]) -> None:
        self._claim = claim
        self._systemd = systemd
        self._tell = tell

    def enrol(self) -> bool:
        """Do it where a claim waits; whether nothing is left to be done."""
        if not self._claim.exists():
            return True
        self._tell("enrolling with the claim that the card brought")
        status = self._systemd.work(ENROL)
        if status == 0:
            wipe(self._claim)
            self._tell("enrolled; the claim is wiped")
            return True
        why = self._systemd.last_words(ENROL)
        if status == _REFUSED:
            self._tell(f"the claim was refused; make a new one and put it on the card: {why}")
        else:
            self._tell(f"not enrolled yet, and tried again later: {why}")
        return False


def take_off_card(places: Places) -> None:
    """Move a claim from the card, which every user of the device can read, to where root alone can.

    Raises:
        OSError: it cannot be.
    """
    if places.claim_on_card.exists():
        data = places.claim_on_card.read_bytes()
        if data.strip():  # else power was cut while it was wiped
            places.kept.mkdir(parents=True, exist_ok=True)
            replace_file(places.claim, data)
        wipe(places.claim_on_card)


def wipe(path: Path) -> None:
    """Overwrite a file, then remove it. Flash memory may keep old copies: a claim is burnt at the coordinator, too.

    Raises:
        OSError: it cannot be.
    """
    overwrite_file(path, b"\n" * path.stat().st_size)
    path.unlink()
    sync_folder(path.parent)
