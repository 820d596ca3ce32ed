"""A claim on the card becomes an identity of the device, once; then the claim is wiped from the card.

The agent does it (``nightjar-agent enroll``), as its own user and in its own sandbox. Here it is started, and the claim
is overwritten and removed when the agent says that it is burnt: status 0, its first connection with its own certificate
was up. Status 2 is a claim that will never do; 3 is a network, a coordinator or a person that is not there yet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from firmware_scripts.device.systemd import Systemd
from host.files import overwrite_file, sync_folder

ENROLL = "nightjar-enroll.service"
_REFUSED = 2


class Enrolling:
    """Enrols.

    Args:
        claim: the file on the card.
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
        self._tell("enrolling with the claim on the card")
        status = self._systemd.work(ENROLL)
        if status == 0:
            wipe(self._claim)
            self._tell("enrolled; the claim is wiped from the card")
            return True
        why = self._systemd.last_words(ENROLL)
        if status == _REFUSED:
            self._tell(f"the claim was refused; make a new one and put it on the card: {why}")
        else:
            self._tell(f"not enrolled yet, and tried again later: {why}")
        return False


def wipe(path: Path) -> None:
    """Overwrite a file, then remove it. Flash memory may keep old copies: a claim is burnt at the coordinator, too.

    Raises:
        OSError: it cannot be.
    """
    overwrite_file(path, b"\n" * path.stat().st_size)
    path.unlink()
    sync_folder(path.parent)
