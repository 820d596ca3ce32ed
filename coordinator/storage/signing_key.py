"""The signing key of orders: a file in the data folder, created at the first start and readable only by its owner.

Whoever has the file can give orders to this population's devices. ``keys.json`` beside it is public: the public half of
the recovery key, and the chain of successions that led to the current key. A key is created only if neither file
exists: devices would not obey a key that they do not know.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from nightjar.host.files import private_folder, read_file, replace_file
from nightjar.wire.errors import ConfigError, UnavailableError, rewording
from nightjar.wire.identifiers import Population
from nightjar.wire.messages import MOST_SUCCESSIONS, Succession
from nightjar.wire.signatures import signed_bytes, succession_bytes

KEY_FILE, NEXT_KEY_FILE, KEYS_FILE = "signing.pem", "signing-next.pem", "keys.json"
"""Files in the data folder; a backup has ``keys.json``, too."""


_MOST_BYTES = 2**20
"""More than any of them takes: damage must not fill the memory."""


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The public record of the keys.

    Attributes:
        recovery: public half of the recovery key, as hex; empty if there is none.
        successions: signed changes of the signing key that led to the current one, oldest first.
    """

    recovery: str = ""
    successions: tuple[Succession, ...] = ()


class KeySigner:
    """Signs messages; implements :class:`nightjar.coordinator.ports.Signer`."""

    def __init__(self, key: Ed25519PrivateKey, keys: Keys) -> None:
        self._key = key
        self.public = public_half(key)
        self.recovery = keys.recovery
        self.successions = keys.successions

    def sign(self, topic: str, text: str) -> str:
        """The signature of a message that is published on a topic, as hex; deterministic."""
        return self._key.sign(signed_bytes(topic, text)).hex()


def load_signer(data_dir: Path) -> KeySigner:
    """The signer of a data folder; its key is created if there never was one.

    Raises:
        ConfigError: the key is missing, invalid, not the one that devices know, or readable by others.
        UnavailableError: the key cannot be read or written.
    """
    path = data_dir / KEY_FILE
    keys = _read_keys(data_dir)
    with _disk(path):
        if not path.exists() and keys is None:
            private_folder(data_dir)
            replace_file(path, _pem(Ed25519PrivateKey.generate()))
        if keys is None:
            keys = Keys()
            _write_keys(data_dir, keys)
        newest = keys.successions[-1].key if keys.successions else ""
        following = data_dir / NEXT_KEY_FILE
        if newest and _public_half_in(following) == newest:
            following.replace(path)  # the last key change was interrupted here
        if not path.exists():
            msg = f"{path} is missing, and devices know it: restore it from a backup, or {_REMEDY}"
            raise ConfigError(msg)
        signer = KeySigner(read_key(path), keys)
    if newest and signer.public != newest:
        msg = f"{path} is not the key that devices were told ({newest[:12]}): restore that one, or {_REMEDY}"
        raise ConfigError(msg)
    return signer


def change_key(data_dir: Path, population: Population, recovery: Ed25519PrivateKey | None, now_s: float) -> KeySigner:
    """Change the signing key; devices accept the new key if the old key or the recovery key signed the succession.

    The coordinator must not be running. ``recovery`` signs if the old key is lost; if it is None, the old key signs.

    Raises:
        ConfigError: the old key is invalid, or ``recovery`` is not the recovery key that devices know.
        UnavailableError: the old key cannot be read, or the disk does not work.
    """
    known, key = _read_keys(data_dir) or Keys(), Ed25519PrivateKey.generate()
    number = 0
    if recovery is None:
        signer = read_key(data_dir / KEY_FILE)
    elif public_half(recovery) != (known.recovery or public_half(recovery)):
        msg = f"expected the recovery key {known.recovery[:12]}, which devices know, got {public_half(recovery)[:12]}"
        raise ConfigError(msg)
    else:
        signer = recovery
        known = replace(known, recovery=public_half(recovery))
        number = max([int(now_s), 1, *(step.number + 1 for step in known.successions)])
    message = succession_bytes(population, public_half(signer), public_half(key), number)
    step = Succession(
        key=public_half(key), signer=public_half(signer), signature=signer.sign(message).hex(), number=number
    )
    with _disk(data_dir):
        private_folder(data_dir)
        replace_file(data_dir / NEXT_KEY_FILE, _pem(key))
        _write_keys(data_dir, replace(known, successions=(*known.successions, step)[-MOST_SUCCESSIONS:]))
    return load_signer(data_dir)


def make_recovery_key(data_dir: Path, path: Path) -> str:
    """Create a recovery key if the coordinator has none; returns its public half, empty if it has one already.

    The private half goes into the file ``path``, readable only by its owner; to be moved off this machine.

    Raises:
        UnavailableError: the file cannot be written, or exists already.
    """
    known = _read_keys(data_dir) or Keys()
    if known.recovery:
        return ""
    key = Ed25519PrivateKey.generate()
    with _disk(path):
        if path.exists():
            raise FileExistsError(None, "it is there already", str(path))
        replace_file(path, _pem(key))
        _write_keys(data_dir, replace(known, recovery=public_half(key)))
    return public_half(key)


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key from a file.

    Raises:
        ConfigError: the file holds no Ed25519 key, or others may read it.
        UnavailableError: the file cannot be read.
    """
    with _disk(path):
        if path.stat().st_mode & 0o077:
            msg = f"{path} may be read by others: chmod 600 {path}, and think about whether somebody has read it"
            raise ConfigError(msg)
        pem = read_file(path, _MOST_BYTES)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        msg = f"{path} holds no private key in PEM without a password; restore it from a backup"
        raise ConfigError(msg) from error
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path}: expected a key of Ed25519, got a {type(key).__name__}"
        raise ConfigError(msg)
    return key


def public_half(key: Ed25519PrivateKey) -> str:
    """The public half of a private key, as hex."""
    return key.public_key().public_bytes_raw().hex()


def _public_half_in(path: Path) -> str:
    """The public half of the key in a file; empty if there is none that can be used."""
    try:
        return public_half(read_key(path))
    except (ConfigError, UnavailableError):
        return ""


_REMEDY = (
    "'model key --new --recovery FILE' makes one that devices take on the recovery key's word; without that, delete "
    f"{KEYS_FILE}, and tell each device the next key (coordinator_key)"
)


def _read_keys(data_dir: Path) -> Keys | None:
    path = data_dir / KEYS_FILE
    with _disk(path):
        try:
            return msgspec.json.decode(read_file(path, _MOST_BYTES), type=Keys)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            msg = f"{path}: expected what this program wrote, got: {error}; restore it from a backup"
            raise ConfigError(msg) from error


def _write_keys(data_dir: Path, keys: Keys) -> None:
    private_folder(data_dir)
    replace_file(data_dir / KEYS_FILE, msgspec.json.encode(keys) + b"\n")


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _disk(path: Path) -> AbstractContextManager[None]:
    return rewording(UnavailableError, f"the key {path} cannot be read or made")
