"""Keeps a worker process: starts it, hands it jobs, replaces it when it dies.

The process is a child with pipes instead of a thread, so that TensorFlow's memory and its crashes are not the
service's.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from coordinator.engine.inbox import Inbox, JobEnded
from coordinator.engine.jobs import Job, Result, failed
from host.children import TRIES, LineChild
from models.child_environment import child_environment
from wire.errors import UnavailableError

JOB_TIMEOUT_S = 900.0
"""Measuring a large model on a slow machine takes minutes; longer than this it hangs."""

DATABASE_URL = "NIGHTJAR_WORKER_DATABASE_URL"
"""Environment variable by which the child is told where the database is."""

_COMMAND = (sys.executable, "-m", "coordinator.engine.worker_child")
_RESULTS: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)
_log = structlog.get_logger("coordinator")


def do_once(job: Job, artifacts: Path, database_url: str) -> Result:
    """Do one job in a process that ends with it, for a command; its libraries may print to standard error.

    Args:
        job: what.
        artifacts: folder of the artifacts.
        database_url: of the coordinator's database, as SQLAlchemy wants it.

    Raises:
        UnavailableError: the process hangs.
    """
    try:
        child = subprocess.run(  # noqa: S603 - our own module
            [*_COMMAND, str(os.getpid()), str(artifacts)],
            input=msgspec.json.encode(job) + b"\n",
            capture_output=True,
            env=_environment(database_url),
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


def _environment(database_url: str) -> dict[str, str]:
    """The URL may hold a password, and arguments are for everybody on the machine to read."""
    return {**child_environment(os.environ), DATABASE_URL: database_url}


class WorkerProcess:
    """A child process that does jobs, one after the other.

    Args:
        artifacts: folder of the artifacts.
        database_url: of the coordinator's database, as SQLAlchemy wants it.
        log: file for what the child and its libraries print.
        post: takes JobEnded.
        command: of the child, without its arguments; a test brings its own.
    """

    def __init__(
        self,
        artifacts: Path,
        database_url: str,
        log: Path,
        post: Callable[[Inbox], None],
        command: tuple[str, ...] = _COMMAND,
    ) -> None:
        arguments = [str(os.getpid()), str(artifacts)]
        self._child = LineChild([*command, *arguments], log, _environment(database_url))
        self._log_path = log
        self._post = post
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = False
        # The kernel ties the child's life to the thread that starts it, so it is this one and it stays.
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its end comes as JobEnded."""
        self._jobs.put(job)

    def close(self) -> None:
        """End the child, also in the middle of a job."""
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
