"""Runs the programs that build images, so that equal input gives equal bytes, and locates the cache of the results."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nightjar.host.programs import find_program, search_path
from nightjar.wire.errors import UnavailableError

# The time of files in images: the day of the first image. Files of packages have their own times.
EPOCH_S = 1_767_225_600  # 2026-01-01
_CLEANS_UP_S = 120.0

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "newuidmap": "uidmap",
    "fakeroot": "fakeroot",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "sfdisk": "fdisk",
    "gcc": "gcc",
    "make": "make",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "arch-test": "arch-test",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-x86_64": "qemu-system-x86",
}


def cache_folder(variables: Mapping[str, str]) -> Path:
    """The folder of cached root file systems and of twins: ``NIGHTJAR_CACHE``, else the user's. It may not exist yet.

    >>> cache_folder({"XDG_CACHE_HOME": "/home/ada/.cache"}).as_posix()
    '/home/ada/.cache/nightjar'
    """
    if named := variables.get("NIGHTJAR_CACHE"):
        return Path(named).absolute()
    home = variables.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "nightjar"


def environment() -> dict[str, str]:
    """Environment variables for reproducible output: fixed times and language, and no personal settings."""
    return {
        "PATH": search_path(),
        "HOME": os.environ.get("HOME", "/nonexistent"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(EPOCH_S),
        "E2FSPROGS_FAKE_TIME": str(EPOCH_S),
        "MTOOLS_SKIP_CHECK": "1",
    }


def require(*programs: str) -> None:
    """Check that all of these programs are installed.

    Raises:
        UnavailableError: a program is missing; the message names every package to install.
    """
    missing = [program for program in programs if find_program(program) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        msg = f"{', '.join(missing)} missing: apt install {packages}"
        raise UnavailableError(msg)


def run(command: Sequence[str | Path], variables: Mapping[str, str] = {}, *, cwd: Path | None = None) -> str:
    """Run a program in :func:`environment` with further variables until it ends, and return its output.

    Raises:
        UnavailableError: the program could not be started, or failed; the message has the end of its output.
    """
    words = [str(word) for word in command]
    try:
        process = subprocess.Popen(  # noqa: S603 - callers name constants
            words,
            env={**environment(), **variables},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        msg = f"{words[0]} could not be run: {error}"
        raise UnavailableError(msg) from error
    with process:
        try:
            output, complaints = process.communicate()
        except BaseException:
            # Terminated, not killed: mmdebstrap needs time to undo its mounts.
            process.terminate()
            process.wait(_CLEANS_UP_S)
            raise
    if process.returncode:
        message = (complaints or output).decode(errors="replace").strip()[-1500:]
        msg = f"{words[0]} failed with status {process.returncode}:\n{message}"
        raise UnavailableError(msg)
    return output.decode(errors="replace")
