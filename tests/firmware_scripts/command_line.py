"""Runs ``nightjar-firmware`` in this process, as a shell would: arguments and typed text in, status and output out."""

import contextlib
import io
import sys
from dataclasses import dataclass

from firmware_scripts.__main__ import run


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
