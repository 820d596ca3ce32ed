"""Runs a program that reports on the device, with a hard timeout.

Such programs hang in the field (``termux-battery-status`` without its companion app, ``adb`` after the phone was
unplugged), some of them in a child process: the whole process group is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

from nightjar.wire.errors import UnavailableError

MOST_OUTPUT = 1_000_000
"""Characters of output; no valid answer is longer."""


Run = Callable[[Sequence[str], float], str]
"""Runs a program like :func:`run`."""


def run(command: Sequence[str], timeout_s: float) -> str:
    """Run a program of the PATH, and return its standard output; after ``timeout_s`` its process group is killed.

    Raises:
        UnavailableError: the program is not installed, timed out, or exited with a status other than 0.
    """
    name = command[0]
    try:
        child = subprocess.Popen(  # noqa: S603 - our own argument vectors, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        msg = f"{name}: {error.strerror or error}"
        raise UnavailableError(msg) from error
    with child:
        try:
            output, complaint = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            msg = f"{name} did not answer within {timeout_s:g} s"
            raise UnavailableError(msg) from error
    if child.returncode != 0:
        last = (complaint.strip() or output.strip()).splitlines()[-1:] or ["no message"]
        msg = f"{name} ended with status {child.returncode}: {last[0][:100]}"
        raise UnavailableError(msg)
    return output[:MOST_OUTPUT]
