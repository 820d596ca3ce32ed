"""Takes a snapshot of this machine, or loads a recorded one. The only module that runs ``lsblk``.

A recording is a folder with ``lsblk.json``, ``mountinfo`` and ``swaps``, exactly as lsblk and the kernel print them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

from nightjar.firmware_scripts.core.targets import BOOT_POINTS, MachineState, parse_machine
from nightjar.wire.errors import ConfigError, NightjarError, UnavailableError

LSBLK = ("lsblk", "-J", "-b", "-O")
_FILES = ("lsblk.json", "mountinfo", "swaps")
_MAX_BYTES = 32 * 2**20
_TIMEOUT_S = 30.0  # lsblk waits for drives that hang


def look() -> MachineState:
    """Take a snapshot of this machine.

    Raises:
        UnavailableError: lsblk is missing or does not answer, or /proc cannot be read.
    """
    return _parse(_look(), "this machine")


def record(folder: Path) -> MachineState:
    """Take a snapshot of this machine and record it in a folder.

    Raises:
        UnavailableError: the folder cannot be written, lsblk is missing or does not answer, or /proc cannot be read.
    """
    seen = _look()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in zip(_FILES, seen, strict=True):
            (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        msg = f"the recording could not be written to {folder}: {error}"
        raise UnavailableError(msg) from error
    return _parse(seen, "this machine")


def recorded(folder: Path) -> MachineState:
    """Load a recorded machine.

    Raises:
        ConfigError: the folder holds no readable recording.
    """
    try:
        seen = tuple(_read(folder / name) for name in _FILES)
    except OSError as error:
        msg = f"{folder} is no recording: expected {', '.join(_FILES)} in it ({error})"
        raise ConfigError(msg) from error
    try:
        return _parse(seen, str(folder))
    except NightjarError as error:
        raise ConfigError(str(error)) from error


def _look() -> tuple[str, ...]:
    for point in BOOT_POINTS:
        with contextlib.suppress(OSError):
            os.scandir(point).close()  # makes autofs mount it, so that its disk is seen
    try:
        done = subprocess.run(LSBLK, capture_output=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603 - a constant
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"lsblk could not be run, so no disk can be judged: {error} (Debian: apt install util-linux)"
        raise UnavailableError(msg) from error
    # lsblk exits with 32 or 64 if it could not read some devices, and still lists the rest. Missing facts are unknown,
    # and unknown facts refuse a disk.
    if not done.stdout:
        msg = f"lsblk printed nothing (status {done.returncode}): {done.stderr.decode(errors='replace')[:200]}"
        raise UnavailableError(msg)
    try:
        proc = [_read(Path("/proc") / name) for name in ("self/mountinfo", "swaps")]
    except OSError as error:
        msg = f"/proc could not be read, so no disk can be judged: {error}"
        raise UnavailableError(msg) from error
    return done.stdout.decode(errors="surrogateescape"), *proc


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES).decode(errors="surrogateescape")


def _parse(seen: tuple[str, ...], whose: str) -> MachineState:
    try:
        return parse_machine(*seen)
    except NightjarError as error:
        msg = f"{whose}: {error}"
        raise UnavailableError(msg) from error
