"""Child processes that answer each line of standard input with a line on standard output, such as JSON.

:class:`LineChild` is the parent's side: it starts the child, and restarts it if it has died. :func:`answer_lines` is
the child's side. The caller defines the content of the lines.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

from nightjar.host.limited_log import shorten

TRIES = 2
"""A child may be killed once because other processes used up the memory; twice in a row is its own fault."""
END_TIMEOUT_S = 5.0
"""How long to wait for a killed child to exit."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def python_command(*arguments: str, python: str | None = None) -> list[str]:
    """The command of a Python child, such as ``python_command("-m", "nightjar.models", "export")``.

    Every Python child is started with it, because ``-P`` keeps the current folder off the module path: else a
    ``host.py`` beside a configuration would be run, as root if root started us. The child finds our packages where this
    process does: installed, or by ``PYTHONPATH``. ``python`` is another interpreter than ours.
    """
    return [python or sys.executable, "-P", *arguments]


class LineChild:
    """A child process that answers lines; started by the first question. One thread may ask at a time.

    The child's standard error is appended to ``log``. None for it or for the environment inherits ours.
    """

    def __init__(
        self, command: Sequence[str], log: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._log, self._environment = list(command), log, environment
        self._child: subprocess.Popen[bytes] | None = None
        self._left: subprocess.Popen[bytes] | None = (
            None  # a process of another user, such as sudo's, that we cannot kill
        )
        self._killed = False

    @property
    def pid(self) -> int | None:
        """Process id of the child; None if there is none."""
        child = self._child
        return None if child is None else child.pid

    def ask(
        self,
        line: bytes,
        timeout_s: float | None = None,
        died: Callable[[int | None, int], None] = lambda _status, _left: None,
    ) -> bytes | None:
        """The child's answer to a line, both without the line feed; None if the child died at every try.

        A child that takes longer than ``timeout_s`` is considered hung, and is killed with all its own children.
        ``died`` is called with the exit status of a child that died, and the number of remaining tries.
        """
        for left in reversed(range(TRIES)):
            answer = self._exchange(line + b"\n", timeout_s)
            if answer.endswith(b"\n"):
                return answer[:-1]
            status = self.end()
            if self._killed:
                break
            died(status, left)
        return None

    def kill(self) -> None:
        """Kill the child for good, even in the middle of an answer. Thread-safe."""
        self._killed = True
        child = self._child
        if child is not None:
            _kill(child)

    def end(self, patience_s: float = 0.0) -> int | None:
        """Close the child's input, wait ``patience_s``, then kill it; return its exit status, None if unknown."""
        child, self._child = self._child, None
        if child is None:
            return None
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # the child may be dead already
                    pipe.close()
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(patience_s)
        _kill(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(END_TIMEOUT_S)
        self._left = child
        return None

    def _exchange(self, line: bytes, timeout_s: float | None) -> bytes:
        """The child's answer; empty or truncated if the child could not be started, died or must be killed."""
        if self._killed:
            return b""
        try:
            child = self._running()
        except OSError:
            return b""
        if child.stdin is None or child.stdout is None:
            return b""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        question, answer = memoryview(line), bytearray()
        os.set_blocking(child.stdin.fileno(), False)  # a hung child does not read either
        try:
            while question and _ready(child.stdin, select.POLLOUT, deadline_s):
                question = question[os.write(child.stdin.fileno(), question) :]
            while not answer.endswith(b"\n") and _ready(child.stdout, select.POLLIN, deadline_s):
                piece = os.read(child.stdout.fileno(), 1 << 16)
                if not piece:
                    break
                answer += piece
        except OSError:
            return b""
        return bytes(answer)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._left is not None and self._left.poll() is None:
            msg = f"process {self._left.pid} hangs and cannot be ended; another beside it would hang, too"
            raise OSError(msg)
        if self._child is None:
            if self._log is not None:
                shorten(self._log)
            with contextlib.ExitStack() as stack:
                self._child = subprocess.Popen(  # noqa: S603 - what our own caller names
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if self._log is None else stack.enter_context(self._log.open("ab")),
                    start_new_session=True,  # ctrl-C goes to the parent only, which then ends the child
                    env=self._environment,
                )
        return self._child


def _ready(pipe: IO[bytes], event: int, deadline_s: float | None) -> bool:
    """Wait until a pipe can be read or written, or is closed; False after the deadline."""
    waiting = select.poll()
    waiting.register(pipe, event)
    left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    return bool(waiting.poll(None if left_s is None else left_s * 1000))


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # the child leads its own process group


def answer_lines(questions: BinaryIO, answers: BinaryIO, answer: Callable[[bytes], bytes]) -> None:
    """Answer each line with one line, both without the line feed, until the input ends."""
    for line in questions:
        answers.write(answer(line.rstrip(b"\n")) + b"\n")
        answers.flush()


def own_output() -> BinaryIO:
    """Reserve standard output for answers: from now on, everything that libraries print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, even by ``kill -9``; the request survives ``exec``.

    Linux only; a no-op elsewhere. The kernel tracks the *thread* that started this process, so that thread must live
    as long as the parent.

    If the parent is dead already, this process exits at once.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
