"""Copies the agent to phones over USB with ``adb``: pushes one archive, and has the phone hash it.

It cannot start anything in Termux, because Android isolates apps, so a person types the last step on the phone. Until
then, any app with access to all files can change the archive, so the last step checks the hash out of their reach.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nightjar.host.programs import run_program
from nightjar.wire.errors import ConfigError, IntegrityError, UnavailableError

FOLDER = "/sdcard/Download/nightjar"
ARCHIVE = "nightjar.tar"
_TIMEOUT_S = 600.0
_SERIAL = re.compile(r"[A-Za-z0-9._:-]{1,64}")

# Runs adb with these arguments and returns its output. Raises UnavailableError.
Adb = Callable[..., str]


@dataclass(frozen=True, slots=True)
class ListedPhone:
    """A phone that adb lists; ``state`` is ``device`` if the phone can be used."""

    serial: str
    state: str


def phones(adb: Adb) -> tuple[ListedPhone, ...]:
    """The phones connected to this machine.

    Raises:
        UnavailableError: adb does not answer.
    """
    lines = adb("devices").splitlines()[1:]
    return tuple(ListedPhone(*line.split("\t", 1)) for line in lines if "\t" in line)


def choose(found: tuple[ListedPhone, ...], serial: str) -> ListedPhone:
    """The phone with this serial number; no phone is ever chosen by default.

    Raises:
        ConfigError: the phone is not connected, or does not allow access.
    """
    if not _SERIAL.fullmatch(serial):
        msg = f"{serial[:64]!r} is no serial number of a phone"
        raise ConfigError(msg)
    phone = next((phone for phone in found if phone.serial == serial), None)
    if phone is None:
        there = ", ".join(phone.serial for phone in found) or "none"
        msg = f"no phone {serial} is on a cable; there are: {there}"
        raise ConfigError(msg)
    if phone.state != "device":
        msg = f"the phone {serial} is {phone.state}: unlock it, and allow this computer to debug it"
        raise ConfigError(msg)
    return phone


def packed(files: Mapping[str, bytes | Path]) -> bytes:
    """A tar of files in a folder ``nightjar``; equal files give identical bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            content = data if isinstance(data, bytes) else data.read_bytes()
            member = tarfile.TarInfo(f"nightjar/{name}")
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def push(adb: Adb, phone: ListedPhone, archive: bytes) -> None:
    """Push an archive into :data:`FOLDER`, and check it with the phone's own sha256.

    Raises:
        UnavailableError: adb failed.
        IntegrityError: the file on the phone differs.
    """
    which = ("-s", phone.serial)
    adb(*which, "shell", "mkdir", "-p", FOLDER)
    target = f"{FOLDER}/{ARCHIVE}"
    with tempfile.NamedTemporaryFile(prefix="nightjar-") as file:
        file.write(archive)
        file.flush()
        adb(*which, "push", file.name, target)
    checksum = adb(*which, "shell", "sha256sum", target).split()
    if not checksum or checksum[0] != hashlib.sha256(archive).hexdigest():
        msg = f"{target} is not what was pushed: is the phone's storage full?"
        raise IntegrityError(msg)


def machine_of(adb: Adb, phone: ListedPhone) -> str:
    """The kernel's name of a phone's processor.

    Raises:
        UnavailableError: adb failed.
    """
    abi = adb("-s", phone.serial, "shell", "getprop", "ro.product.cpu.abi").strip()
    return {"arm64-v8a": "aarch64", "armeabi-v7a": "armv7l"}.get(abi, abi)


def run_adb(*arguments: str) -> str:
    """Run the ``adb`` program; return its output.

    Raises:
        UnavailableError: adb is missing, or failed.
    """
    done = run_program(["adb", *arguments], _TIMEOUT_S, remedy="apt install adb")
    if done.returncode:
        msg = f"adb {' '.join(arguments[-2:-1])} failed: {(done.stderr or done.stdout).strip()[-200:]}"
        raise UnavailableError(msg)
    return done.stdout
