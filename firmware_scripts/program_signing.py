"""Signs what devices may compute: the program of a model folder, with the owner's keys, which are kept offline.

The keys are ``keys/targets-*.key`` of a folder with the metadata of releases
(:mod:`nightjar.firmware_scripts.release_keys`), which devices with a bundle know, and ``keys/owner-*.key``, whose
public half claims bring to the others. What is signed is :func:`nightjar.models.signed_programs.statement`.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nightjar.firmware_scripts.bundle.signing import load_private_key, make_key
from nightjar.host.files import READABLE, replace_file
from nightjar.models.folder import MANIFEST, PROGRAM
from nightjar.models.manifest import Artifact, Manifest
from nightjar.models.signed_programs import SIGNATURE_FILE, OwnerSignature, SignedProgram, statement
from nightjar.wire.errors import ConfigError, RemoteProtocolError

OWNER = "owner-1a"
"""Stem of the key that is made where there is none."""
_KEYS = ("owner-*.key", "targets-*.key")


def sign_model(keys: Path, model: Path) -> SignedProgram:
    """Sign the program of a model folder with the owner's keys in ``keys``; makes one if there is none.

    Signatures by other keys that are in the folder already stay, so that several keepers can sign in turn.

    Raises:
        ConfigError: the folder holds no model, its program is not the one that its manifest names, or a key cannot be
            read or written.
        OSError: the signature cannot be written.
    """
    try:
        manifest = Manifest.decode((model / MANIFEST).read_bytes())
        program = (model / PROGRAM).read_bytes()
    except (OSError, RemoteProtocolError) as error:
        msg = f"{model} holds no model that can be signed: {error}; 'python -m nightjar.models export' makes one"
        raise ConfigError(msg) from error
    if Artifact.of(program) != manifest.program:
        msg = f"{model / PROGRAM} is not the program that {MANIFEST} names; export the model again"
        raise ConfigError(msg)
    stated, path = statement(manifest), model / SIGNATURE_FILE
    made = {public_hex(key): key.sign(stated).hex() for key in _owner_keys(keys)}
    for each in _held(path):
        if each.key not in made and _is_valid(each, stated):  # of the same program and the same shapes
            made[each.key] = each.signature
    signed = SignedProgram(manifest.program.sha256, tuple(OwnerSignature(*pair) for pair in made.items()))
    replace_file(path, signed.encode(), READABLE)
    return signed


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public half of a key, as ``owner_key`` takes it."""
    return key.public_key().public_bytes_raw().hex()


def _owner_keys(folder: Path) -> list[Ed25519PrivateKey]:
    held = folder / "keys"
    found = [path for pattern in _KEYS for path in sorted(held.glob(pattern))]
    if not found:
        try:
            held.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            msg = f"{held} cannot be made for the owner's key: {error}; give a folder that can be written"
            raise ConfigError(msg) from error
        make_key(held / f"{OWNER}.key", held / f"{OWNER}.pub")
        found = [held / f"{OWNER}.key"]
    return [load_private_key(path) for path in found]


def _held(path: Path) -> tuple[OwnerSignature, ...]:
    """The signatures that are there already."""
    try:
        return SignedProgram.decode(path.read_bytes()).signatures
    except (OSError, RemoteProtocolError):
        return ()


def _is_valid(each: OwnerSignature, stated: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(each.key)).verify(bytes.fromhex(each.signature), stated)
    except (InvalidSignature, ValueError):
        return False
    return True
