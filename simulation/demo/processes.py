"""Child processes with log files, which never outlive the demo.

Each child has its own session, so that ctrl-C reaches only us and the children are stopped in order; and the kernel
kills it if we die without stopping it.
"""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import itertools
import multiprocessing
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from nightjar.host.children import die_with_parent
from nightjar.wire.errors import UnavailableError

T = TypeVar("T")
MOST_RESTARTS = 5
"""A process that is killed more often probably lacks memory."""


@dataclass(slots=True)
class Service:
    """One child process that can be restarted."""

    name: str
    command: Sequence[str]
    log: Path  # each start appends to it
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # in addition to ours
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _kills: int = field(default=0, repr=False)  # those after which it was started again

    def start(self) -> None:
        """Start or restart the process."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )

    @property
    def pid(self) -> int:
        """Process id of the latest start.

        Raises:
            UnavailableError: the process was never started.
        """
        if self._process is None:
            msg = f"{self.name} was never started"
            raise UnavailableError(msg)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def restart_if_killed(self) -> bool:
        """Start the process again if a signal ended it; returns whether it did.

        Raises:
            UnavailableError: it ended by itself, or was killed too often; the message has the end of its log.
        """
        if self.running:
            return False
        killed = self._process is not None and self._process.returncode < 0
        if not killed or self._kills == MOST_RESTARTS:
            msg = f"{self.name} ended unexpectedly; the end of {self.log}:\n{self.tail()}"
            raise UnavailableError(msg)
        self._kills += 1
        self.start()
        return True

    def kill(self) -> None:
        """Send SIGKILL, like a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Send SIGTERM, then SIGKILL if the process does not end in time."""
        if self._process is None:
            return
        self.ask_to_end()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self, lines: int = 12) -> str:
        """The last lines of the log, for an error message."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def wait_until(ready: Callable[[], bool], services: Sequence[Service], timeout_s: float) -> None:
    """Wait until the last of the services that just started is ready.

    Raises:
        UnavailableError: one ended, or it took too long; the message has the end of its log.
    """
    deadline_s = time.monotonic() + timeout_s
    while not ready():
        for service in services:
            if not service.running:
                msg = f"{service.name} could not start; the end of {service.log}:\n{service.tail()}"
                raise UnavailableError(msg)
        if time.monotonic() > deadline_s:
            last = services[-1]
            msg = f"{last.name} did not answer within {timeout_s:.0f} s; the end of {last.log}:\n{last.tail()}"
            raise UnavailableError(msg)
        time.sleep(0.1)


@contextlib.contextmanager
def stopping(groups: Sequence[Sequence[Service]]) -> Iterator[None]:
    """Stop groups of services after the block, last group first, each group at once; a second ctrl-C kills all."""
    try:
        yield
    finally:
        try:
            for group in reversed(groups):
                for service in group:
                    service.ask_to_end()
                for service in group:
                    service.stop()
        except KeyboardInterrupt:
            for service in itertools.chain.from_iterable(groups):
                service.kill()


def quiet_child(log: Path) -> concurrent.futures.ProcessPoolExecutor:
    """A child process whose standard error goes to ``log``, for libraries whose output cannot be switched off."""
    log.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn, initializer=_log_to, initargs=(log,))


def outcome(future: concurrent.futures.Future[T], what: str) -> T:
    """Wait for the result of what :func:`quiet_child` does.

    Raises:
        UnavailableError: the child was killed.
    """
    try:
        return future.result()
    except concurrent.futures.process.BrokenProcessPool as error:
        msg = f"the process of {what} died; is there enough memory (about 2 GB)?"
        raise UnavailableError(msg) from error


def _log_to(log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
