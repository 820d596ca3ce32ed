"""The claim file on a device's SD card: read once, and wiped when the device has its certificate.

Somebody who reads the card before the device first starts could use the claim, once. The device's own attempt is then
refused, and the coordinator's audit log shows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.host.files import overwrite_file, read_file, sync_folder
from nightjar.wire.errors import ConfigError

MOST_BYTES = 16 * 1024


class ClaimFile(msgspec.Struct, frozen=True, kw_only=True):
    """The claim file that ``nightjar-coordinator enrol-token create`` writes.

    It holds a single-use token, the base URL of the coordinator, its CA certificates in PEM, and the public key of the
    owner, who signs programs; that is empty if he signs none.
    """

    claim: Annotated[str, Meta(min_length=20, max_length=128)]
    url: Annotated[str, Meta(pattern=r"^https://[^/\s]+$(?!\n)")]
    authority: Annotated[str, Meta(max_length=8192)]
    owner_key: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z", max_length=64)] = ""


def read_claim(path: Path) -> ClaimFile:
    """Read a claim file.

    Raises:
        ConfigError: there is no such file, or it is not a claim file.
    """
    try:
        return msgspec.json.decode(read_file(path, MOST_BYTES), type=ClaimFile)
    except OSError as error:
        wiped = "; was it wiped after enrolling?" if isinstance(error, FileNotFoundError) else ""
        msg = f"there is no claim to read at {path}: {error.strerror or error}{wiped}"
        raise ConfigError(msg) from error
    except msgspec.MsgspecError as error:
        # The error names a field but never its content.
        msg = f"{path}: expected the file that 'nightjar-coordinator enrol-token create' writes: {error}"
        raise ConfigError(msg) from error


def wipe_claim(path: Path, claim: str) -> bool:
    """Overwrite the claim in place, anywhere in a file; False if the file does not contain it.

    Written in place, the new bytes use the same clusters of the card's FAT file system. The card's controller may still
    keep copies of the old bytes, but the claim is already used up by then.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        held = read_file(path)
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
    """Overwrite the claim in its file, and delete the file.

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
