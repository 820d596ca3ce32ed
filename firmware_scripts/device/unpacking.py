"""Unpacks a bundle beside the existing releases, after verifying all of it.

``openssl``, which every Debian has, checks the signature, because nothing else that can do so is installed yet. The pip
in the bundle installs the wheels, because a device need not have one.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_scripts.bundle.reading import MANIFEST, SIGNATURE, SIGNED_CONTEXT, Checked, read_archive, read_manifest
from firmware_scripts.core.manifest import ListedFile
from firmware_scripts.device.places import Places
from host.files import put_folder_in_place
from wire.errors import IntegrityError, RemoteProtocolError, UnavailableError
from wire.release_version import numbers

LOCK = "requirements.lock"
LIBRARY = "lib"
OWN = "device"
"""The folder with this program and the units, in a bundle and in a release."""
_PIP_S = 1800.0  # for a Raspberry Pi Zero 2 with a slow card
_PIP_REFUSES = 1
"""How pip ends if a wheel is missing, has another hash or is for another machine."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle with a valid signature."""

    path: Path
    version: str
    checked: Checked


class OpensslCheck:
    """Checks signatures with the ``openssl`` program."""

    def __init__(self, key: Path) -> None:
        self._key = key

    def __call__(self, manifest: bytes, signature: bytes) -> None:
        """Check that the key signed this manifest.

        Raises:
            IntegrityError: the signature does not match.
            UnavailableError: openssl or the key is missing.
        """
        if not self._key.is_file():
            msg = f"there is no {self._key}, so no bundle can be trusted: put the owner's .pub file there"
            raise UnavailableError(msg)
        with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
            signed, signature_file = Path(folder) / "signed", Path(folder) / "signature"
            signed.write_bytes(SIGNED_CONTEXT + manifest)
            signature_file.write_bytes(signature)
            command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(self._key), "-rawin"]
            command += ["-in", str(signed), "-sigfile", str(signature_file)]
            try:
                done = subprocess.run(command, capture_output=True, check=False, timeout=60)  # noqa: S603
            except (OSError, subprocess.TimeoutExpired) as error:
                msg = f"openssl could not be run: {error} (apt install openssl)"
                raise UnavailableError(msg) from error
        if done.returncode:
            msg = "the bundle is not signed by the key of this device, or was changed since"
            raise IntegrityError(msg)


def open_bundle(path: Path, key: Path, *, for_this_machine: bool = True, present: str | None = None) -> Bundle:
    """Check a whole bundle.

    Args:
        path: the archive.
        key: the public key that the bundle must be signed with.
        for_this_machine: whether the bundle must fit this device.
        present: the installed release. The files of its own bundle are not read, because they are not needed and
            reading them would cost a slow board half a minute at each boot with the card.

    Raises:
        RemoteProtocolError: the bundle is invalid, damaged, for another kind of device, or not signed with this key.
        UnavailableError: the bundle cannot be read or checked.
    """
    try:
        checked = read_manifest(path, OpensslCheck(key)) if present is not None else None
        if checked is None or checked.facts.get("agent") != present:
            checked = read_archive(path, OpensslCheck(key))
    except OSError as error:
        msg = f"the bundle {path} cannot be read: {error}"
        raise UnavailableError(msg) from error
    version = checked.facts.get("agent")
    if not isinstance(version, str):
        msg = "the bundle does not say which version it is"
        raise RemoteProtocolError(msg, code="bundle")
    numbers(version)
    if for_this_machine:
        _check_machine(checked)
    return Bundle(path, version, checked)


def unpack(bundle: Bundle, places: Places, key: Path, pip_options: Sequence[str] = ()) -> None:
    """Unpack a release into its folder, atomically.

    Args:
        bundle: a checked bundle; its bytes are checked again while they are read.
        places: the device's paths.
        key: the public key that it was signed with.
        pip_options: options that make pip choose wheels for another machine than this one.

    Raises:
        UnavailableError: the disk is full, or pip was stopped.
        RemoteProtocolError: the bundle has changed since it was checked, or its wheels cannot be installed here.
    """
    folder = places.releases / bundle.version
    partial = places.releases / f".{bundle.version}.part"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        again = read_archive(bundle.path, OpensslCheck(key), _Writer(partial))
        if again != bundle.checked:
            msg = f"{bundle.path} changed while it was read"
            raise RemoteProtocolError(msg, code="bundle")
        _install(partial, pip_options)
        shutil.rmtree(partial / "wheels")
        (partial / MANIFEST).write_bytes(again.manifest)
        (partial / SIGNATURE).write_bytes(again.signature)
        shutil.rmtree(folder, ignore_errors=True)
        put_folder_in_place(partial, folder)
    except OSError as error:
        msg = f"{bundle.path.name} could not be unpacked: {error}"
        raise UnavailableError(msg) from error


class _Writer:
    """Writes the files of a bundle into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, file: ListedFile, data: bytes) -> None:
        path = self._folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(data)


def _install(folder: Path, pip_options: Sequence[str]) -> None:
    wheels = folder / "wheels"
    pip = next(wheels.glob("pip-*.whl"), None)
    if pip is None:
        msg = "the bundle has no pip among its wheels: make it again with a newer nightjar-firmware"
        raise RemoteProtocolError(msg, code="bundle")
    lock = folder / "wanted.lock"
    lines = (folder / LOCK).read_text(encoding="utf-8").splitlines(keepends=True)
    lock.write_text("".join(line for line in lines if not line.startswith("pip==")), encoding="utf-8")
    command = [sys.executable, str(pip / "pip"), "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-index", "--find-links", str(wheels), "--require-hashes", "--no-deps", "--no-cache-dir"]
    command += ["--root-user-action", "ignore", "--target", str(folder / LIBRARY), "--requirement", str(lock)]
    # Another version of Python would write bytecode that the device cannot use.
    command += ["--no-compile", *pip_options] if pip_options else []
    # Ignore the pip.conf of the device and of its user.
    environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PIP_CONFIG_FILE": os.devnull, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(  # noqa: S603 - pip from the signed bundle, with what this module names
            command, capture_output=True, text=True, check=False, timeout=_PIP_S, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"pip could not be run: {error}"
        raise UnavailableError(msg) from error
    if done.returncode:
        msg = f"pip could not install the wheels: {done.stderr.strip()[-300:]}"
        # An error of the disk also ends with this status; what pip did not foresee ends with another.
        if done.returncode == _PIP_REFUSES and "OSError" not in done.stderr:
            raise RemoteProtocolError(msg, code="bundle")
        raise UnavailableError(msg)
    lock.unlink()


def _check_machine(checked: Checked) -> None:
    glibc = platform.libc_ver()[1] or "0.0"
    here = {
        "machine": platform.machine(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    for name, actual in here.items():
        if checked.facts.get(name) != actual:
            wanted = checked.facts.get(name)
            msg = f"the bundle is for {name} {wanted}, this device has {actual}: take the bundle for this device"
            raise RemoteProtocolError(msg, code="platform")
    wanted = str(checked.facts.get("glibc", "0.0"))
    if numbers(f"{glibc}.0") < numbers(f"{wanted}.0"):
        msg = f"the bundle needs glibc {wanted}, this device has {glibc}: take the bundle for this system"
        raise RemoteProtocolError(msg, code="platform")
