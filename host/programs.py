"""Finds and runs other programs.

Standard library only, because it also runs on a device before anything is installed there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nightjar.wire.errors import UnavailableError

# Where Debian keeps mkfs and similar programs, which are not on ordinary users' path.
ADMINISTRATORS = "/usr/local/sbin:/usr/sbin:/sbin"


def search_path() -> str:
    """The folders of programs, an administrator's included, as in the variable ``PATH``."""
    return f"{os.environ.get('PATH', os.defpath)}:{ADMINISTRATORS}"


def find_program(name: str) -> str | None:
    """The path of a program; None if it is not installed."""
    return shutil.which(name, path=search_path())


def run_program(
    command: Sequence[str | Path], timeout_s: float, environment: Mapping[str, str] | None = None, remedy: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input; the caller checks its status. ``remedy`` is for the error's message.

    Raises:
        UnavailableError: the program is missing, or takes too long.
    """
    words = [str(word) for word in command]
    try:
        return subprocess.run(  # noqa: S603 - callers name the program
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"{Path(words[0]).name} could not be run: {error}{f' ({remedy})' if remedy else ''}"
        raise UnavailableError(msg) from error
