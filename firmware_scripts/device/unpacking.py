"""Unpacks a bundle beside the existing releases, after verifying all of it.

``openssl``, which every Debian has, checks the signature, because nothing else that can do so is installed yet. The pip
in the bundle installs the wheels, because a device need not have one.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nightjar.firmware_scripts.bundle.reading import (
    MANIFEST,
    SIGNATURE,
    SIGNED_CONTEXT,
    Checked,
    read_archive,
    read_manifest,
)
from nightjar.firmware_scripts.core.manifest import ListedFile
from nightjar.firmware_scripts.device.places import Places
from nightjar.host.files import put_folder_in_place
from nightjar.host.programs import run_program
from nightjar.wire.errors import IntegrityError, RemoteProtocolError, UnavailableError
from nightjar.wire.release_version import numbers

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


def check_with_openssl(key: Path, manifest: bytes, signature: bytes) -> None:
    """Check that the key signed this manifest, with the ``openssl`` program.

    Raises:
        IntegrityError: the signature does not match.
        UnavailableError: openssl or the key is missing.
    """
    if not key.is_file():
        msg = f"there is no {key}, so no bundle can be trusted: put the owner's .pub file there"
        raise UnavailableError(msg)
    with tempfile.TemporaryDirectory(prefix="nightjar-") as folder:
        signed, signature_file = Path(folder) / "signed", Path(folder) / "signature"
        signed.write_bytes(SIGNED_CONTEXT + manifest)
        signature_file.write_bytes(signature)
        command: list[str | Path] = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin"]
        done = run_program([*command, "-in", signed, "-sigfile", signature_file], 60.0, remedy="apt install openssl")
    if done.returncode:
        msg = "the bundle is not signed by the key of this device, or was changed since"
        raise IntegrityError(msg)


def open_bundle(path: Path, key: Path, *, for_this_machine: bool = True, present: str | None = None) -> Bundle:
    """Check a whole bundle, and whether it fits this device if it is ``for_this_machine``.

    The files in the bundle of the release that is ``present`` are not read, because they are not needed and reading
    them would cost a slow board half a minute at each boot with the card.

    Raises:
        RemoteProtocolError: the bundle is invalid, damaged, for another kind of device, or not signed with this key.
        UnavailableError: the bundle cannot be read or checked.
    """
    check = partial(check_with_openssl, key)
    try:
        checked = read_manifest(path, check) if present is not None else None
        if checked is None or checked.facts.get("agent") != present:
            checked = read_archive(path, check)
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


def unpack(bundle: Bundle, places: Places, pip_options: Sequence[str] = ()) -> None:
    """Unpack a release into its folder, atomically; its bytes are checked again while they are read.

    ``pip_options`` make pip choose wheels for another machine than this one.

    Raises:
        UnavailableError: the disk is full, or pip was stopped.
        RemoteProtocolError: the bundle has changed since it was checked, or its wheels cannot be installed here.
    """
    folder = places.releases / bundle.version
    unfinished = places.releases / f".{bundle.version}.part"

    def write(file: ListedFile, data: bytes) -> None:
        path = unfinished / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(data)

    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        again = read_archive(bundle.path, partial(check_with_openssl, places.key), write)
        if again != bundle.checked:
            msg = f"{bundle.path} changed while it was read"
            raise RemoteProtocolError(msg, code="bundle")
        _install(unfinished, pip_options)
        shutil.rmtree(unfinished / "wheels")
        (unfinished / MANIFEST).write_bytes(again.manifest)
        (unfinished / SIGNATURE).write_bytes(again.signature)
        shutil.rmtree(folder, ignore_errors=True)
        put_folder_in_place(unfinished, folder)
    except OSError as error:
        msg = f"{bundle.path.name} could not be unpacked: {error}"
        raise UnavailableError(msg) from error


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
    done = run_program(command, _PIP_S, environment)
    if done.returncode:
        msg = f"pip could not install the wheels: {done.stderr.strip()[-300:]}"
        # An error of the disk also ends with this status; what pip did not foresee ends with another.
        if done.returncode == _PIP_REFUSES and "OSError" not in done.stderr:
            raise RemoteProtocolError(msg, code="bundle")
        raise UnavailableError(msg)
    lock.unlink()


def _check_machine(checked: Checked) -> None:
    glibc = platform.libc_ver()[1] or "0.0"
    here = {"machine": platform.machine(), "python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name, actual in here.items():
        wanted = checked.facts.get(name)
        if wanted != actual:
            msg = f"the bundle is for {name} {wanted}, this device has {actual}: take the bundle for this device"
            raise RemoteProtocolError(msg, code="platform")
    wanted = str(checked.facts.get("glibc", "0.0"))
    if numbers(f"{glibc}.0") < numbers(f"{wanted}.0"):
        msg = f"the bundle needs glibc {wanted}, this device has {glibc}: take the bundle for this system"
        raise RemoteProtocolError(msg, code="platform")
