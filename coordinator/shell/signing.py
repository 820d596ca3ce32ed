"""The key that signs manifests: one file beside the data, made at the first start, that only its owner may read.

Whoever has the file can make models that this population's devices take. Backups have it, too, because a coordinator
without it would have to be made known to every device again.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from host.files import replace_file
from wire.errors import ConfigError, UnavailableError
from wire.identifiers import Population, Sha256
from wire.signatures import signed_bytes

KEY_FILE = "signing.pem"
"""In the data folder, and in a backup."""


class KeySigner:
    """Signs manifests; implements :class:`coordinator.ports.Signer`.

    Args:
        key: private.
        population: whose manifests it signs.

    Attributes:
        public: the public half, in hex.
    """

    def __init__(self, key: Ed25519PrivateKey, population: Population) -> None:
        self._key = key
        self._population = population
        self.public = key.public_key().public_bytes_raw().hex()

    def sign(self, manifest: str) -> str:
        """The signature of a manifest by its hash, in hex; the same each time."""
        return self._key.sign(signed_bytes(self._population, Sha256(manifest))).hex()


def load_signer(data_dir: Path, population: Population) -> KeySigner:
    """The signer of a data folder; its key is made if there is none.

    Raises:
        ConfigError: the file holds no such key, or others may read it.
        UnavailableError: it cannot be read or written.
    """
    path = data_dir / KEY_FILE
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077:
            msg = f"{path} may be read by others: chmod 600 {path}, and think about whether somebody has read it"
            raise ConfigError(msg)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        msg = f"the key {path} cannot be read or made: {error.strerror or error}"
        raise UnavailableError(msg) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"{path} holds no private key in PEM without a password; restore it from a backup"
        raise ConfigError(msg) from error
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path}: expected a key of Ed25519, got a {type(key).__name__}"
        raise ConfigError(msg)
    return KeySigner(key, population)


def _make(path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, pem)
