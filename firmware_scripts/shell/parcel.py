"""Loads a bundle for ``customise``: checks all of it and extracts the few files that the first boot needs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from firmware_scripts.bundle.reading import read_archive
from firmware_scripts.bundle.signing import check_signature, load_public_key
from firmware_scripts.core.manifest import ListedFile
from firmware_scripts.customising import BundleFiles
from wire.errors import UnavailableError

_OWN = "device/"


def load_parcel(bundle: Path, public_key: Path) -> BundleFiles:
    """Read and check a bundle.

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
