"""Supervises the worker process: starts it, hands it jobs, and restarts it when it dies.

The worker is a child process with pipes, not a thread, so that TensorFlow's memory use and crashes do not affect the
service.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from nightjar.coordinator.records.inbox import Inbox, JobEnded
from nightjar.coordinator.records.jobs import Job, Result, failed
from nightjar.host.children import TRIES, LineChild, python_command
from nightjar.models.child_environment import child_environment
from nightjar.wire.errors import UnavailableError

JOB_TIMEOUT_S = 900.0
"""Measuring a large model on a slow machine takes minutes; a job that takes longer than this counts as hung."""

STORES = "NIGHTJAR_WORKER_STORES"
"""Environment variable that passes the :class:`Stores` to the child process."""

_COMMAND = tuple(python_command("-m", "nightjar.coordinator.engine.worker_child"))
_RESULTS: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)
_log = structlog.get_logger("coordinator")


class Stores(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reads and writes.

    Attributes:
        artifacts_url: S3-compatible store of the artifacts; empty for none.
        term: term of the leader for whom it works; None if there is no other coordinator.
    """

    artifacts: str
    database_url: str
    artifacts_url: str = ""
    term: int | None = None


def do_once(job: Job, stores: Stores) -> Result:
    """Do one job in a process started for that job alone. Commands use it; libraries may print to standard error.

    Raises:
        UnavailableError: the process did not end in time.
    """
    try:
        child = subprocess.run(  # noqa: S603 - our own module
            [*_COMMAND, str(os.getpid())],
            input=msgspec.json.encode(job) + b"\n",
            capture_output=True,
            env=_environment(stores),
            timeout=JOB_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        msg = f"the worker process did not end within {JOB_TIMEOUT_S:.0f} s"
        raise UnavailableError(msg) from error
    if child.stdout.endswith(b"\n"):
        return _RESULTS.decode(child.stdout)
    last = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return failed(job, f"the worker process died: {' '.join(last)[:300]}")


def _environment(stores: Stores) -> dict[str, str]:
    """The child's environment. The URL may hold a password, and any user of the machine can read arguments."""
    return {**child_environment(os.environ), STORES: msgspec.json.encode(stores).decode()}


class WorkerProcess:
    """A child process that does jobs one at a time.

    Args:
        log: file for the output of the child and its libraries.
        command: command line of the child, without its arguments; tests pass their own.
    """

    def __init__(
        self,
        stores: Stores,
        log: Path,
        post: Callable[[Inbox], None],
        command: tuple[str, ...] = _COMMAND,
    ) -> None:
        self._child = LineChild([*command, str(os.getpid())], log, _environment(stores))
        self._log_path = log
        self._post = post
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = False
        # The kernel kills the child when the thread that started it ends, so one long-lived thread starts it.
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its result is posted as JobEnded."""
        self._jobs.put(job)

    def close(self) -> None:
        """Kill the child, even in the middle of a job."""
        self._closing = True
        self._jobs.put(None)
        self._child.kill()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closing:
            result = self._do(job)
            if not self._closing:
                self._post(JobEnded(result))
        self._child.end()

    def _do(self, job: Job) -> Result:
        def died(status: int | None, left: int) -> None:
            _log.warning("worker_died", job=type(job).__name__, status=status, tries_left=left)

        answer = self._child.ask(msgspec.json.encode(job), JOB_TIMEOUT_S, died)
        if answer is None:
            return failed(job, f"the worker process died {TRIES} times; see {self._log_path}")
        return _RESULTS.decode(answer)
