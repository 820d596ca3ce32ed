"""The worker thread: fetches and trains while the driver keeps listening. One job at a time, in order.

An interpreter must stay on one thread and a phone has few cores, so there is one such thread, also for many emulated
phones in a process. What a job returns or raises goes to its driver's queue; nothing escapes and ends the thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

from edge_agent.ports import Job, WorkDone


class JobThread:
    """A thread that calls one function after the other.

    Args:
        tidy: called after each.
    """

    def __init__(self, tidy: Callable[[], None] = lambda: None) -> None:
        self._tidy = tidy
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        # A daemon: a process that was told to end must not wait for a download.
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        """Queue a function, which must not raise."""
        self._jobs.put(job)

    def close(self, timeout_s: float) -> None:
        """End after the present one, and wait for that at most so long."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            self._tidy()


class ThreadWorker:
    """Implements :class:`edge_agent.ports.Worker`.

    Args:
        post: takes the outcomes; called on the thread.
        thread: does the jobs; others may have theirs done by it, too.
    """

    def __init__(self, post: Callable[[WorkDone], None], thread: JobThread) -> None:
        self._post = post
        self._thread = thread
        self._stopped: set[int] = set()

    def start(self, job: Job) -> None:
        """Queue a job."""
        self._thread.put(partial(self._do, job))

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of that job true; a job that did not begin never does."""
        self._stopped.add(number)

    def _do(self, job: Job) -> None:
        if job.number not in self._stopped:
            self._post(WorkDone(job.number, self._outcome(job)))
        self._stopped.discard(job.number)

    def _outcome(self, job: Job) -> object:
        try:
            return job.work(lambda: job.number in self._stopped)
        except Exception as error:
            # Whatever it is, the driver says it and goes on.
            return error
