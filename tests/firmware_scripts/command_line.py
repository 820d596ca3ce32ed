"""Runs ``nightjar-firmware`` in this process, as a shell would: arguments and typed text in, status and output out."""

import contextlib
import io
import sys
from dataclasses import dataclass

from nightjar.firmware_scripts.__main__ import run


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def firmware(*arguments, typed=""):
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(typed)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run([str(argument) for argument in arguments])
    finally:
        sys.stdin = stdin
    return Done(int(status), out.getvalue(), err.getvalue())


def partitioned(image: bytes) -> bytes:
    """An image with a partition table in its first sector."""
    entry = bytes([0x80, 0, 0, 0, 0x0C, 0, 0, 0]) + (8).to_bytes(4, "little") + (64).to_bytes(4, "little")
    return image[:446] + entry + bytes(48) + b"\x55\xaa" + image[512:]
