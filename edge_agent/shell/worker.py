"""The worker thread: fetches and trains while the driver keeps listening. One job at a time, in order.

An interpreter must stay on one thread and a phone has few cores, so a process has one worker thread, even if it
emulates many phones. What a job returns or raises goes to its driver's queue; no exception can end the thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

from nightjar.edge_agent.inbox import Job, WorkDone


class JobThread:
    """A thread that calls one function after the other, and ``tidy`` after each."""

    def __init__(self, tidy: Callable[[], None] = lambda: None) -> None:
        self._tidy = tidy
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # A daemon: a process that is shutting down must not wait for a download.
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """Queue a function, which must not raise."""
        self._jobs.put(job)

    def close(self, timeout_s: float) -> None:
        """End the thread after the current job; wait for it at most ``timeout_s`` seconds."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._tidy()


class ThreadWorker:
    """Implements :class:`nightjar.edge_agent.ports.Worker`; some may share a thread, where ``post`` takes outcomes."""

    def __init__(self, post: Callable[[WorkDone], None], thread: JobThread) -> None:
        self._post = post
        self._thread = thread
        self._stopped: set[int] = set()

    def start(self, job: Job) -> None:
        """Queue a job."""
        self._thread.put(partial(self._do, job))

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of this job return true; a job that has not started is skipped."""
        self._stopped.add(number)

    def _do(self, job: Job) -> None:
        if job.number not in self._stopped:
            self._post(WorkDone(job.number, self._outcome(job)))
        self._stopped.discard(job.number)

    def _outcome(self, job: Job) -> object:
        try:
            return job.work(lambda: job.number in self._stopped)
        except Exception as error:
            # The driver logs any error and carries on.
            return error
