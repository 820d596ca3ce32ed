"""The claim file that a card carries: read once, and wiped when the device has its certificate.

Somebody who reads the card before its device first starts could use the claim, once; a claim that somebody else used is
refused to the card's own device, and the coordinator's audit log says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from host.files import overwrite_file, sync_folder
from wire.errors import ConfigError

MOST_BYTES = 16 * 1024


class ClaimFile(msgspec.Struct, frozen=True, kw_only=True):
    """What ``nightjar-coordinator enrol-token create`` writes.

    Attributes:
        claim: lets this device in, once.
        url: of the coordinator.
        authority: whom to trust there: certificates, PEM.
    """

    claim: Annotated[str, Meta(min_length=20, max_length=128)]
    url: Annotated[str, Meta(pattern=r"^https://[^/\s]+$(?!\n)")]
    authority: Annotated[str, Meta(max_length=8192)]


def read_claim(path: Path) -> ClaimFile:
    """Read a claim file.

    Raises:
        ConfigError: there is none, or it is something else.
    """
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=ClaimFile)
    except OSError as error:
        msg = f"there is no claim to read at {path}: {error.strerror or error}; was it wiped after enrolling?"
        raise ConfigError(msg) from error
    except msgspec.MsgspecError as error:
        # The message names a field and never its content.
        msg = f"{path}: expected the file that 'nightjar-coordinator enrol-token create' writes: {error}"
        raise ConfigError(msg) from error


def wipe_claim(path: Path, claim: str) -> bool:
    """Overwrite the claim where it stands, wherever in a file that is; False if it does not stand there.

    In place: a card's FAT then has the new bytes in the same clusters. What the card's own controller keeps of the old
    ones nobody can say; the claim is burnt by then.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        held = path.read_bytes()
        if claim.encode() not in held:
            return False
        overwrite_file(path, held.replace(claim.encode(), b"x" * len(claim.encode())))
    except FileNotFoundError:
        return False
    except OSError as error:
        msg = f"the claim in {path} cannot be wiped: {error.strerror or error}; it is burnt, but delete it by hand"
        raise ConfigError(msg) from error
    return True


def remove_claim_file(path: Path, claim: str) -> None:
    """Overwrite the claim in its file, and remove the file.

    Raises:
        ConfigError: the file cannot be written or removed.
    """
    if wipe_claim(path, claim):
        try:
            path.unlink()
            sync_folder(path.absolute().parent)
        except OSError as error:
            msg = f"the claim file {path} is blank now, and cannot be removed: {error.strerror or error}"
            raise ConfigError(msg) from error
