"""Reads the owner's signatures of a program from a model folder (``nightjar-firmware keys sign`` writes them)."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from nightjar.models.folder import MANIFEST
from nightjar.models.manifest import Manifest
from nightjar.models.signed_programs import SIGNATURE_FILE, SignedProgram, statement
from nightjar.wire.errors import ConfigError, RemoteProtocolError


def signed_program_in(folder: Path) -> SignedProgram | None:
    """The signatures in a model folder; None if it has none.

    Whether the keys are those of the devices' owner only the devices know.

    Raises:
        ConfigError: they are not valid for the model in the folder.
    """
    path = folder / SIGNATURE_FILE
    try:
        data, described = path.read_bytes(), (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path} cannot be read: {error}"
        raise ConfigError(msg) from error
    try:
        signed, stated = SignedProgram.decode(data), statement(Manifest.decode(described))
        for each in signed.signatures:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(each.key)).verify(bytes.fromhex(each.signature), stated)
    except (RemoteProtocolError, InvalidSignature, ValueError) as error:
        msg = f"{path} is not a signature of the model beside it; sign it again: nightjar-firmware keys sign"
        raise ConfigError(msg) from error
    return signed
