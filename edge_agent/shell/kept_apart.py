"""What must outlive a damaged database, in small files with a checksum: the ledger, and that learning is paused.

The ledger is written before each charge is stored. So it may know of a report that was never made, and never misses
one. Of the last secure sum it keeps which one it was, because a device joins each only once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nightjar.edge_agent.core.privacy_ledger import LedgerEntry, higher
from nightjar.edge_agent.core.stored import SumState, over
from nightjar.host.files import read_file, replace_file
from nightjar.wire.errors import UnavailableError

LEDGER, PAUSED = "ledger.json", "learning-paused"
KEPT_SETTINGS = "settings.kept"
"""The settings that the agent ran with last (:mod:`nightjar.edge_agent.kept_settings`)."""


class KeptLedger(msgspec.Struct, frozen=True):
    """The content of the ledger's file; ``joined`` is the last secure sum, without its secrets."""

    entries: list[LedgerEntry] = []
    joined: SumState | None = None


class DamagedFileError(Exception):
    """A file is not what was written there."""


def sealed(body: bytes) -> bytes:
    """A line with the checksum of the body, and the body."""
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unsealed(data: bytes) -> bytes:
    """Inverse of :func:`sealed`.

    >>> unsealed(sealed(b"kept"))
    b'kept'

    Raises:
        DamagedFileError: the checksum is not that of the body.
    """
    checksum, _, body = data.partition(b"\n")
    if checksum != hashlib.sha256(body).hexdigest().encode():
        msg = "its checksum does not match"
        raise DamagedFileError(msg)
    return body


def read_ledger(data_dir: Path) -> KeptLedger | None:
    """The ledger's file; None if there is none.

    Raises:
        DamagedFileError: it cannot be read, or is not what was written.
    """
    try:
        return msgspec.json.decode(unsealed(read_file(data_dir / LEDGER)), type=KeptLedger)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise DamagedFileError(str(error)) from error


def write_ledger(data_dir: Path, kept: KeptLedger) -> None:
    """Replace the ledger's file, if it changes.

    Raises:
        UnavailableError: it cannot be written.
    """
    try:
        replace_file(data_dir / LEDGER, sealed(msgspec.json.encode(kept)))
    except OSError as error:
        msg = f"the ledger could not be written ({error}); is the disk full or read-only?"
        raise UnavailableError(msg) from error


def with_higher(kept: KeptLedger, entries: Iterable[LedgerEntry], joined: SumState | None = None) -> KeptLedger:
    """The ledger with these entries where they are higher, and the sum that was joined since."""
    merged = {entry.task: entry for entry in kept.entries}
    for entry in entries:
        merged[entry.task] = higher(merged.get(entry.task), entry)
    return replace(
        kept,
        entries=[merged[task] for task in sorted(merged)],
        joined=kept.joined if joined is None else over(joined),
    )


def note_paused(data_dir: Path, *, paused: bool) -> None:
    """Note outside of the database whether learning is paused.

    Raises:
        OSError: it cannot be noted.
    """
    if paused:
        replace_file(data_dir / PAUSED, b"")
    else:
        (data_dir / PAUSED).unlink(missing_ok=True)
