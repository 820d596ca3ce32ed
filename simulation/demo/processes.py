"""Child processes with a log file each, that never outlive the demo.

Each child is in a session of its own, so that ctrl-C reaches only us and the children are stopped in order; and the
kernel kills it if we die without a word. This module knows nothing of federated learning.
"""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import itertools
import multiprocessing
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from host.children import die_with_parent
from wire.errors import UnavailableError

T = TypeVar("T")


@dataclass(slots=True)
class Service:
    """One child process that can be started again.

    Attributes:
        name: for people, and of the log file.
        command: argument vector.
        log: where its output goes; appended to by every start.
        environment: variables beside ours.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, or start it again."""
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
            UnavailableError: it was never started.
        """
        if self._process is None:
            msg = f"{self.name} was never started"
            raise UnavailableError(msg)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def killed(self) -> bool:
        """Whether its latest start was ended by a signal, and not by itself."""
        return self._process is not None and (self._process.poll() or 0) < 0

    def kill(self) -> None:
        """``kill -9``: what a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_end(self) -> None:
        """Send SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask it to end, and make it end if it does not."""
        if self._process is None:
            return
        self.ask_to_end()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self, lines: int = 12) -> str:
        """The end of its log, for an error message."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


@contextlib.contextmanager
def stopping(groups: Sequence[Sequence[Service]]) -> Iterator[None]:
    """Stop groups of services at the end, the last group first, each group at once; a second ctrl-C kills them all."""
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
    """A child process for work whose libraries write to the terminal past every setting; they write to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn, initializer=_log_to, initargs=(log,))


def outcome(future: concurrent.futures.Future[T], what: str) -> T:
    """What a child's work came to.

    Args:
        future: from :func:`quiet_child`.
        what: the work, for the message.

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
