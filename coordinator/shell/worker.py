"""Keeps a worker process: starts it, hands it jobs, replaces it when it dies.

The process is a child with pipes instead of a thread, so that TensorFlow's memory and its crashes are not the
service's.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from coordinator.inbox import Inbox, JobEnded
from coordinator.jobs import Job, Result, failed
from models.processors import Processor, environment
from wire.errors import UnavailableError

JOB_TIMEOUT_S = 900.0
"""Measuring a large model on a slow machine takes minutes; longer than this it hangs."""
TRIES = 2
"""A worker may be killed for memory that somebody else used; twice in a row is its own fault."""

_COMMAND = (sys.executable, "-m", "coordinator.shell.worker_child")
_RESULTS: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)
_log = structlog.get_logger("coordinator")


def do_once(job: Job, artifacts: Path, private: Path, processor: Processor = Processor.AUTO) -> Result:
    """Do one job in a process that ends with it, for a command; its libraries may print to standard error.

    Args:
        job: what.
        artifacts: folder of the artifacts.
        private: folder of reports and optimizer states.
        processor: where it calculates.

    Raises:
        UnavailableError: the process hangs.
    """
    try:
        child = subprocess.run(  # noqa: S603 - our own module
            [*_COMMAND, str(os.getpid()), str(artifacts), str(private), processor.value],
            input=msgspec.json.encode(job) + b"\n",
            capture_output=True,
            env=environment(processor, os.environ),
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


class WorkerProcess:
    """A child process that does jobs, one after the other.

    Args:
        artifacts: folder of the artifacts.
        private: folder of reports and optimizer states.
        log: file for what the child and its libraries print.
        post: takes JobEnded.
        command: of the child, without its arguments; a test brings its own.
        processor: where the child calculates.
    """

    def __init__(
        self,
        artifacts: Path,
        private: Path,
        log: Path,
        post: Callable[[Inbox], None],
        command: tuple[str, ...] = _COMMAND,
        processor: Processor = Processor.AUTO,
    ) -> None:
        self._command = [*command, str(os.getpid()), str(artifacts), str(private), processor.value]
        self._processor = processor
        self._log_path = log
        self._post = post
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._child: subprocess.Popen[bytes] | None = None
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
        child = self._child
        if child is not None:
            child.kill()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closing:
            result = self._do(job)
            if not self._closing:
                self._post(JobEnded(result))
        self._end_child()

    def _do(self, job: Job) -> Result:
        for left in reversed(range(TRIES)):
            line = self._ask(msgspec.json.encode(job) + b"\n")
            if line.endswith(b"\n"):
                return _RESULTS.decode(line)
            status = self._end_child()
            if self._closing:
                break
            _log.warning("worker_died", job=type(job).__name__, status=status, tries_left=left)
        return failed(job, f"the worker process died {TRIES} times; see {self._log_path}")

    def _ask(self, line: bytes) -> bytes:
        """The child's answer; empty or cut if it died or had to be killed."""
        if self._child is None:
            with self._log_path.open("ab") as log:
                self._child = subprocess.Popen(  # noqa: S603 - our own module
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # ctrl-C is for the service, which then ends us
                    env=environment(self._processor, os.environ),
                )
        child = self._child
        if child.stdin is None or child.stdout is None:
            return b""
        watchdog = threading.Timer(JOB_TIMEOUT_S, child.kill)
        watchdog.start()
        try:
            child.stdin.write(line)
            child.stdin.flush()
            return child.stdout.readline()
        except OSError:
            return b""
        finally:
            watchdog.cancel()

    def _end_child(self) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # a broken pipe is why we are here
                    pipe.close()
        return child.wait()
