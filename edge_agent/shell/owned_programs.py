"""Decides which programs this device computes: those of its release, and those that its owner signed.

The check comes before a program is fetched. The signatures are fetched from the coordinator and kept beside the
program, so that a device without a network can check them again. They are verified against the owner's keys only: the
coordinator's own key counts for nothing here (docs/adr/0067-signed-programs.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nightjar.edge_agent.core.owners import ProgramOwner
from nightjar.edge_agent.link.trust import SignatureCheck
from nightjar.host.files import replace_file
from nightjar.models.manifest import Manifest
from nightjar.models.packaged import packaged_program
from nightjar.models.signed_programs import MOST_BYTES, PROGRAMS_PATH, UNSIGNED, SignedProgram, statement
from nightjar.wire.errors import RemoteProtocolError

SIGNED = ".signed"
"""Suffix of the file with a program's signatures; the stem is the program's hash."""

ReadDocument = Callable[[str, int], bytes]
"""(path, most bytes) -> a document of the coordinator. Raises RemoteProtocolError if it has none, or
UnavailableError."""

CheckProgram = Callable[[Manifest], None]
"""Raises RemoteProtocolError, with the code ``unsigned-program``, if this device must not compute a manifest's program;
UnavailableError if that cannot be found out now."""


def no_document(path: str, _most_bytes: int) -> bytes:
    """Read nothing. A :data:`ReadDocument` for commands that use no network."""
    msg = f"there is no {path} on this device"
    raise RemoteProtocolError(msg, code="no-artifact")


class OwnedPrograms:
    """A :data:`CheckProgram`. ``folder`` keeps the signatures; without ``owners`` only packaged programs pass."""

    def __init__(
        self, folder: Path, read: ReadDocument, owners: Sequence[ProgramOwner], is_valid: SignatureCheck
    ) -> None:
        self._folder, self._read, self._owners, self._is_valid = folder, read, tuple(owners), is_valid
        self._checked: set[bytes] = set()

    def __call__(self, manifest: Manifest) -> None:
        """Check the program that a manifest names."""
        if packaged_program(manifest) is not None:
            return
        stated = statement(manifest)
        if stated in self._checked:
            return
        kept = self._folder / f"{manifest.program.sha256}{SIGNED}"
        if not (kept.exists() and self._signed(_decoded(kept.read_bytes()), stated)):
            data = self._fetched(manifest)
            if not self._signed(SignedProgram.decode(data), stated):
                raise _refusal(manifest, self._why())
            replace_file(kept, data)
        self._checked.add(stated)

    def _fetched(self, manifest: Manifest) -> bytes:
        if not self._owners:
            raise _refusal(manifest, self._why())
        try:
            return self._read(f"{PROGRAMS_PATH}{manifest.program.sha256}", MOST_BYTES)
        except RemoteProtocolError as error:
            raise _refusal(manifest, "the coordinator has no signature of it") from error

    def _signed(self, found: SignedProgram | None, stated: bytes) -> bool:
        """Whether an owner signed; a statement names its program, so the file's name for it does not matter."""
        if found is None:
            return False
        known = frozenset[str]().union(*(owner.keys for owner in self._owners))
        valid = {
            each.key
            for each in found.signatures
            if each.key in known and self._is_valid(each.key, each.signature, stated)
        }
        return any(owner.agrees(valid) for owner in self._owners)

    def _why(self) -> str:
        if not self._owners:
            return "this device knows no key of its owner; set owner_key, or enrol with a claim that brings it"
        keys = ", ".join(sorted(key[:12] for owner in self._owners for key in owner.keys))
        return f"the signatures are not by its owner, whose keys are {keys}"


def _decoded(data: bytes) -> SignedProgram | None:
    try:
        return SignedProgram.decode(data)
    except RemoteProtocolError:
        return None  # damaged on the card; it is fetched again


def _refusal(manifest: Manifest, why: str) -> RemoteProtocolError:
    msg = (
        f"program {manifest.program.sha256[:12]} neither comes with this agent nor is signed by the device's owner "
        f"('nightjar-firmware keys sign'): {why}"
    )
    return RemoteProtocolError(msg, code=UNSIGNED)
