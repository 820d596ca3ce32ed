"""The worker thread: fetches and trains while the driver keeps listening. One job at a time, in order.

An interpreter must stay on one thread and a phone has few cores, so there is one worker. What a job returns or raises
goes to the driver's queue; nothing escapes and ends the thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from edge_agent.ports import Job, WorkDone


class ThreadWorker:
    """Implements :class:`edge_agent.ports.Worker`.

    Args:
        post: takes the outcomes; called on the worker's thread.
        tidy: called after each job.
    """

    def __init__(self, post: Callable[[WorkDone], None], tidy: Callable[[], None] = lambda: None) -> None:
        self._post = post
        self._tidy = tidy
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        # A daemon: a process that was told to end must not wait for a download.
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def start(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def stop(self, number: int) -> None:
        """Make ``should_stop`` of that job true; a job that did not begin never does."""
        self._stopped.add(number)

    def close(self, timeout_s: float) -> None:
        """End after the present job, and wait for that at most so long."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.number not in self._stopped:
                self._post(WorkDone(job.number, self._outcome(job)))
            self._stopped.discard(job.number)
            self._tidy()

    def _outcome(self, job: Job) -> object:
        try:
            return job.work(lambda: job.number in self._stopped)
        except Exception as error:
            # Whatever it is, the driver says it and goes on.
            return error
