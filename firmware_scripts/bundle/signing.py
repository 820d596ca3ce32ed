"""Makes and uses the keys that sign bundles: Ed25519 by ``cryptography``, private keys as PEM in files of mode 0600."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nightjar.firmware_scripts.bundle.reading import SIGNED_CONTEXT
from nightjar.wire.errors import ConfigError, IntegrityError


def make_key(private: Path, public: Path) -> None:
    """Make a key pair in two new files.

    Raises:
        ConfigError: a file exists already, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    try:
        for path, data, mode in ((private, pem, 0o600), (public, public_pem, 0o644)):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
    except OSError as error:
        msg = f"the key could not be written, and none is ever overwritten; give another name, or move it away: {error}"
        raise ConfigError(msg) from error


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Load the private key that signs.

    Raises:
        ConfigError: the file cannot be read, is readable by others, or is not an Ed25519 private key.
    """
    try:
        mode = path.stat().st_mode
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"{path} is no private key that can be read: {error}"
        raise ConfigError(msg) from error
    if mode & 0o077:
        msg = f"others may read {path}: chmod 600 it, and make a new key if it was not yours alone"
        raise ConfigError(msg)
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path} is no ed25519 key: make one with 'nightjar-firmware bundle-key'"
        raise ConfigError(msg)
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Load the public key that signatures are checked with.

    Raises:
        ConfigError: the file cannot be read, or is not an Ed25519 public key.
    """
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        msg = f"{path} is no public key that can be read: {error}"
        raise ConfigError(msg) from error
    if not isinstance(key, Ed25519PublicKey):
        msg = f"{path} is no ed25519 key"
        raise ConfigError(msg)
    return key


def sign(key: Ed25519PrivateKey, manifest: bytes) -> bytes:
    """Sign a manifest: 64 bytes, deterministic."""
    return key.sign(SIGNED_CONTEXT + manifest)


def check_signature(key: Ed25519PublicKey, manifest: bytes, signature: bytes) -> None:
    """Check that ``key`` signed this manifest.

    Raises:
        IntegrityError: the signature does not match.
    """
    try:
        key.verify(signature, SIGNED_CONTEXT + manifest)
    except InvalidSignature as error:
        msg = "the manifest is not signed by this key, or was changed since"
        raise IntegrityError(msg) from error
