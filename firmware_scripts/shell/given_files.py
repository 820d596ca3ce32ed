"""Reads the files that a person names on the command line: a bundle, settings, a claim, lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nightjar.firmware_scripts.bundle.reading import read_archive
from nightjar.firmware_scripts.bundle.signing import check_signature, load_public_key
from nightjar.firmware_scripts.core.manifest import ListedFile
from nightjar.firmware_scripts.customising import BundleFiles
from nightjar.wire.errors import ConfigError, UnavailableError

_OWN = "device/"


def load_parcel(bundle: Path, public_key: Path) -> BundleFiles:
    """Check all of a bundle, and extract the few files that the first boot needs.

    Raises:
        ConfigError: the public key is invalid.
        RemoteProtocolError: the bundle is invalid, or not signed with this key.
        UnavailableError: the bundle cannot be read.
    """
    key = load_public_key(public_key)
    own: dict[str, bytes] = {}

    def take(file: ListedFile, data: bytes) -> None:
        if file.path.startswith(_OWN):
            name = file.path.removeprefix(_OWN)
            own[name] = own.get(name, b"") + data

    try:
        checked = read_archive(bundle, partial(check_signature, key), take)
        return BundleFiles(bundle, public_key.read_bytes(), own, checked.facts)
    except OSError as error:
        msg = f"the bundle {bundle} cannot be read: {error}"
        raise UnavailableError(msg) from error


def read_given(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}"
        raise ConfigError(msg) from error


def read_given_text(path: Path) -> str:
    """The text of a file.

    Raises:
        ConfigError: it cannot be read, or is no text.
    """
    try:
        return read_given(path).decode()
    except UnicodeDecodeError as error:
        msg = f"{path} is no text"
        raise ConfigError(msg) from error
