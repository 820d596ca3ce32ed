"""Child processes that answer a line of standard input with a line of standard output, such as JSON.

:class:`LineChild` is the parent's end: it starts the child, and starts it again when it is gone. :func:`answer_lines`
is the child's. What the lines say is for the caller to know.
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

TRIES = 2
"""A child may be killed for memory that somebody else used; twice in a row is its own fault."""
END_TIMEOUT_S = 5.0
"""For a child that was killed to be gone."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class LineChild:
    """A child process that answers lines; started at the first one. One thread asks at a time.

    Args:
        command: the program and its arguments.
        log: file to which its standard error is added; None for ours.
        environment: None for ours.
    """

    def __init__(
        self, command: Sequence[str], log: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._log, self._environment = list(command), log, environment
        self._child: subprocess.Popen[bytes] | None = None
        self._left: subprocess.Popen[bytes] | None = None  # another user's, such as sudo's, that we cannot end
        self._killed = False

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        child = self._child
        return None if child is None else child.pid

    def ask(
        self,
        line: bytes,
        timeout_s: float | None = None,
        died: Callable[[int | None, int], None] = lambda _status, _left: None,
    ) -> bytes | None:
        """Its answer to a line, both without the line feed; None if it ended instead, each time.

        Args:
            line: the question.
            timeout_s: a child that takes longer hangs, and is killed with what it started.
            died: called with the status of a child that ended, and how often it is tried again.
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
        """End it for good, also in the middle of an answer; any thread."""
        self._killed = True
        child = self._child
        if child is not None:
            _kill(child)

    def end(self, patience_s: float = 0.0) -> int | None:
        """End it, by the end of its input if it is given time for that; its status, None if there was no process."""
        child, self._child = self._child, None
        if child is None:
            return None
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # a broken pipe is nothing new
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
        """Its answer; empty or cut if it could not be started, died or had to be killed."""
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
        os.set_blocking(child.stdin.fileno(), False)  # one that hangs does not read either
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
            with contextlib.ExitStack() as stack:
                self._child = subprocess.Popen(  # noqa: S603 - what our own caller names
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None if self._log is None else stack.enter_context(self._log.open("ab")),
                    start_new_session=True,  # ctrl-C is for the parent, which then ends us
                    env=self._environment,
                )
        return self._child


def _ready(pipe: IO[bytes], event: int, deadline_s: float | None) -> bool:
    """Wait until a pipe can be read or written, or has ended; False if that takes too long."""
    waiting = select.poll()
    waiting.register(pipe, event)
    left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
    return bool(waiting.poll(None if left_s is None else left_s * 1000))


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # it leads a session of its own


def answer_lines(questions: BinaryIO, answers: BinaryIO, answer: Callable[[bytes], bytes]) -> None:
    """Answer each line with one line, both without the line feed, until the input ends."""
    for line in questions:
        answers.write(answer(line.rstrip(b"\n")) + b"\n")
        answers.flush()


def own_output() -> BinaryIO:
    """Standard output for answers alone: whatever libraries print goes to standard error from now on."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, also by ``kill -9``; the request survives ``exec``.

    Linux only; elsewhere nothing happens. The kernel means the *thread* that started this process, so that one must
    live as long as its process.

    Args:
        parent: process id of the parent. If it is already gone, this process ends at once.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
