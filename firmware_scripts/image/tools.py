"""Runs the programs that build images; an error for a missing program names the package that contains it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from wire.errors import UnavailableError

# Where Debian keeps mkfs and similar programs, which are not on ordinary users' path.
_ADMINISTRATORS = "/usr/local/sbin:/usr/sbin:/sbin"

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
    "depmod": "kmod",
    "modprobe": "kmod",
    "cpio": "cpio",
    "gcc": "gcc",
    "make": "make",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "arch-test": "arch-test",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-x86_64": "qemu-system-x86",
}


def environment(epoch_s: int) -> dict[str, str]:
    """Environment variables for reproducible output: fixed times and language, and no personal settings."""
    return {
        "PATH": f"{os.environ.get('PATH', os.defpath)}:{_ADMINISTRATORS}",
        "HOME": os.environ.get("HOME", "/nonexistent"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": str(epoch_s),
        "E2FSPROGS_FAKE_TIME": str(epoch_s),
        "MTOOLS_SKIP_CHECK": "1",
    }


def require(*programs: str) -> None:
    """Check that all of these programs are installed.

    Raises:
        UnavailableError: a program is missing; the message names every package to install.
    """
    path = f"{os.environ.get('PATH', os.defpath)}:{_ADMINISTRATORS}"
    missing = [program for program in programs if shutil.which(program, path=path) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[program] for program in missing}))
        msg = f"{', '.join(missing)} missing: apt install {packages}"
        raise UnavailableError(msg)


def run(command: Sequence[str | Path], variables: Mapping[str, str], *, cwd: Path | None = None) -> str:
    """Run a program until it ends and return its output.

    Raises:
        UnavailableError: the program could not be started, or failed; the message has the end of its output.
    """
    words = [str(word) for word in command]
    try:
        process = subprocess.Popen(  # noqa: S603 - callers name constants
            words,
            env=dict(variables),
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
